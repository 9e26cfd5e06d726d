"""Requests to a server on this machine."""

import http.client
import threading
from contextlib import contextmanager


@contextmanager
def serving(server):
    """Serve in a thread; the value is the port."""
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def request(port, path, host=None):
    """The status, headers and body of the answer to a GET request, with any Host header."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.putrequest("GET", path, skip_host=host is not None)
    if host is not None:
        connection.putheader("Host", host)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body

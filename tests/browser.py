"""A real browser for tests of pages: Chromium, if it is installed."""

import re
import shutil
import time
from contextlib import contextmanager

from unavailable import unavailable

LIMIT = 600_000
"""Milliseconds to wait for the browser: tests do not depend on how fast a machine is."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def until(opened, expression, seconds=600):
    """Wait until an expression is true on a page; this works under any content policy."""
    end = time.monotonic() + seconds
    while not opened.evaluate(expression):
        assert time.monotonic() < end, f"never: {expression}"
        time.sleep(0.05)


@contextmanager
def page(allow=None, **options):
    """A page that fails the test on any error in it that does not match `allow`."""
    file = next(filter(None, map(shutil.which, NAMES)), None)
    if file is None:
        unavailable(f"no browser: none of {', '.join(NAMES)} is installed")
    from playwright.sync_api import sync_playwright

    wrong = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=file, args=["--no-sandbox"], timeout=LIMIT
        )
        opened = browser.new_page(**options)
        opened.set_default_timeout(LIMIT)
        opened.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        opened.on("pageerror", lambda error: wrong.append(str(error)))
        yield opened
        browser.close()
    wrong = [said for said in wrong if allow is None or not re.search(allow, said)]
    assert not wrong, wrong

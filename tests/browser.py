"""A real browser for pages: Chromium, if there is one."""

import re
import shutil
import time
from contextlib import contextmanager

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def until(opened, expression, seconds=10):
    """Wait for something to be true on a page, whatever its policy says of scripts."""
    end = time.monotonic() + seconds
    while not opened.evaluate(expression):
        assert time.monotonic() < end, f"never: {expression}"
        time.sleep(0.05)


@contextmanager
def page(allow=None, **options):
    """A page that fails the test if anything in it goes wrong but what is allowed."""
    file = next(filter(None, map(shutil.which, NAMES)), None)
    if file is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    from playwright.sync_api import sync_playwright

    wrong = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=file, args=["--no-sandbox"])
        opened = browser.new_page(**options)
        opened.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        opened.on("pageerror", lambda error: wrong.append(str(error)))
        yield opened
        browser.close()
    wrong = [said for said in wrong if allow is None or not re.search(allow, said)]
    assert not wrong, wrong

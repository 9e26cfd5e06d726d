"""Take the screenshots of the live page for docs/watch.md: light, dark, and on a phone.

`python tools/screenshots.py` runs examples/watch.py (seed 0, 1,500 time steps, Fashion-MNIST) in a
temporary folder and opens its page in Chromium.
"""

import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright

from taskfree.observe import watch

ROOT = Path(__file__).parents[1]
SCREENS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1000, "height": 1400}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1000, "height": 1400}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 1400}},
}


def main():
    """Run the example, serve its page, and take the screenshots."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, ROOT / "examples/watch.py"], cwd=folder, check=True)
        server = watch.serve(Path(folder) / "run")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path="/usr/bin/chromium", args=["--no-sandbox"]
            )
            for name, options in SCREENS.items():
                page = browser.new_page(**options)
                page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
                page.wait_for_selector("#samples img", timeout=600_000)
                page.wait_for_timeout(1000)
                page.screenshot(path=ROOT / f"docs/watch-{name}.png", full_page=True)
            browser.close()
        server.shutdown()


if __name__ == "__main__":
    main()

"""Take the picture of a report that the documentation shows: needs Chromium and the extra test-browser.

python tools/write_report_picture.py
"""

import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from advisor.__main__ import main as advisor

PICTURE = ROOT / "docs" / "images" / "report.png"
ASKED = "recommend --model 70b --workload serve --as-of 2026-11-20 --quiet"
WIDTH = 1200
HEIGHT = 1010
SCALE = 0.85


def main() -> int:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("no Chromium here", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page_file = Path(folder) / "report.html"
        code = advisor([*ASKED.split(), "-o", str(page_file)])
        if code:
            return code
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=SCALE)
        page.goto(page_file.as_uri())
        page.wait_for_selector("html[data-ready]")
        PICTURE.parent.mkdir(exist_ok=True)
        page.screenshot(path=PICTURE)
        browser.close()
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

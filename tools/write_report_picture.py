"""Take the pictures of pages that the documentation shows: needs Chromium and the extra test-browser.

python tools/write_report_picture.py [report] [what-if]
"""

import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from advisor.__main__ import main as advisor

IMAGES = ROOT / "docs" / "images"
DAY = "--as-of 2026-11-20 --quiet"
PICTURES = {
    "report": (f"recommend --model 70b --workload serve {DAY}", ""),
    "what-if": (
        "recommend --model 8b --rate 10 --tpot-p99 50ms --gpu l40s,h100-sxm,rtx-4090,mi300x,b200-sxm --engine vllm "
        f"--levers none --what-if {DAY}",
        "#what-if",
    ),
}
"""Question of each picture, and the part of its page; the top of the page where it is empty."""
WIDTH = 1200
HEIGHT = 1010
SCALE = 0.85


def main() -> int:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("no Chromium here", file=sys.stderr)
        return 1
    wanted = sys.argv[1:] or list(PICTURES)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name in wanted:
            asked, part = PICTURES[name]
            page_file = Path(folder) / f"{name}.html"
            code = advisor([*asked.split(), "-o", str(page_file)])
            if code:
                return code
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=SCALE)
            page.goto(page_file.as_uri())
            page.wait_for_selector("html[data-ready]")
            IMAGES.mkdir(exist_ok=True)
            picture = IMAGES / f"{name}.png"
            (page.locator(part) if part else page).screenshot(path=picture)
            print(f"{picture.relative_to(ROOT)}: {picture.stat().st_size} bytes")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

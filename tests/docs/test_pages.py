"""Pages of every command with drawings: small, accessible, legible; the documentation shows pictures of them.

`pytest tests/docs/test_pages.py --update-golden` takes the pictures of docs/images again.
"""

import re
from pathlib import Path
from typing import Any, Final

import pytest

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
MOST_BYTES: Final = 1_500_000
WIDTH: Final = 1200
TOP_HEIGHT: Final = 1010
PART_HEIGHT: Final = 2400
SCALE: Final = 0.85
"""Pixels of a picture over those of the page."""
LOOKS: Final = ((1280, "light"), (390, "dark"))
"""Width of the window, which decides what overlaps, and colours, which decide contrasts."""
HEIGHT: Final = 900
REDRAWN_MS: Final = 300
"""Time within which a page redraws itself for another window [ms]; it does at the next frame."""
MOST_WAITS: Final = 10
LEAST_OVERLAP: Final = 3
"""Pixels by which two labels must overlap in both directions to count: boxes of text have margins."""
PICTURES: Final = {
    "report": ("recommend --model 70b --workload serve", ""),
    "what-if": (
        "recommend --model 8b --rate 10 --tpot-p99 50ms --gpu l40s,h100-sxm,rtx-4090,mi300x,b200-sxm --engine vllm "
        "--levers none --what-if",
        "#what-if",
    ),
    "what-if-cost": (
        "cost --model 8b --tokens-per-day 2B --gpu l40s,h100-sxm --engine vllm --what-if",
        "#what-if",
    ),
    "what-if-build": ("build --model 70b --budget 8600 --top 3 --what-if", "#what-if"),
    "what-if-simulate": ("simulate serve --model 8b --gpu l40s --rate 4 --what-if", "#what-if"),
    "machine": ("build --model 70b --budget 8600 --top 3", ".drawing"),
    "memory-over-a-step": (
        "simulate train --model 70b --gpu h100-sxm --gpus 64 --tp 8 --pp 4",
        "Memory over a step",
    ),
    "nodes": ("recommend --model 8b --workload train --tokens 20B --gpus 16 --gpu h100-sxm", ".drawing"),
    "fleet-over-time": ("simulate fleet autoscaling", "Replicas over time"),
    "queue-and-cache": ("simulate serve --model 8b --gpu l40s --rate 5", "KV cache"),
}
"""Question of each picture, and the part of its page: a selector, the beginning of a chart's name, or the top."""
SMALLER: Final = {
    "report": "recommend --model 70b --workload serve --gpu h100-sxm,b200-sxm,mi300x",
    "what-if": "recommend --model 8b --rate 10 --tpot-p99 50ms --gpu l40s,h100-sxm --engine vllm --what-if",
    "what-if-simulate": "simulate serve --model 8b --gpu l40s --rate 4 --requests 160 --what-if",
}
"""Questions whose pages have the parts of a picture's and fewer rows: they are opened where no picture is taken."""
WITHIN: Final = {"machine": "what-if-build", "queue-and-cache": "what-if-simulate", "cost": "what-if-cost"}
"""Pages that are opened only where pictures are taken, and the pages that have all of their parts."""
PAGES: Final = {name: command for name, (command, _) in PICTURES.items()} | {
    "catalog": "catalog gpus --family hopper",
    "roofline": "roofline --gpu h100-sxm --model 8b",
    "cost": "cost --model 8b --gpu l40s,rtx-4090",
    "one-node": "simulate train --model 8b --gpu h100-sxm --gpus 8",
}
"""Questions of the pages that are opened."""
VIOLATIONS: Final = (
    "axe.run({resultTypes: ['violations'], selectors: false}).then((result) => result.violations)"
)
"""Selectors of all that keeps the rules would take half of the time."""
OVERLAPS: Final = """(least) => {
    const found = [];
    for (const svg of document.querySelectorAll('.plot svg, .drawing svg')) {
        const texts = [...svg.querySelectorAll('text')].filter((each) => each.textContent.trim());
        const boxes = texts.map((each) => [each.textContent, each.getBoundingClientRect()]);
        boxes.forEach(([text, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
            const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (wide > least && high > least) found.push([text, other]);
        }));
    }
    return found;
}"""


@pytest.fixture(scope="module", params=PAGES)
def page_file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from advisor.__main__ import main

    is_update = request.config.getoption("--update-golden")
    if request.param in WITHIN and not is_update:
        pytest.skip(f"the page {WITHIN[request.param]} has all of its parts")
    command = PAGES[request.param] if is_update else SMALLER.get(request.param, PAGES[request.param])
    file = tmp_path_factory.mktemp("pages") / f"{request.param}.html"
    assert main([*command.split(), "--as-of", "2026-11-20", "--quiet", "-o", str(file)]) == 0
    return file


def open_page(browser: Any, file: Path, width: int, height: int, **more: Any) -> Any:
    """Return a page that has drawn itself."""
    page = browser.new_page(viewport={"width": width, "height": height}, **more)
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready]", timeout=20_000)
    return page


def part_of(page: Any, part: str) -> Any:
    """Return the part of a page that its picture shows, or the page where it shows the top."""
    if not part:
        return page
    is_selector = part.startswith(("#", "."))
    return page.locator(part if is_selector else f'figure.chart:has(.name:text("{part}"))').first


@pytest.mark.slow
def test_a_page_keeps_the_rules_of_accessibility_and_its_labels_apart(
    page_file: Path, browser: Any, request: pytest.FixtureRequest
) -> None:
    """In a wide window that becomes narrow and dark; the parts that pictures of the documentation show are there."""
    assert page_file.stat().st_size <= MOST_BYTES
    axe = pytest.importorskip("axe_playwright_python", reason="pip install '.[test-browser]' brings axe")
    script = Path(axe.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
    page = open_page(browser, page_file, WIDTH, HEIGHT, bypass_csp=True)
    page.evaluate(script)
    for width, scheme in LOOKS:
        page.set_viewport_size({"width": width, "height": HEIGHT})
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(REDRAWN_MS)
        wide = page.evaluate("document.documentElement.scrollWidth")
        for _ in range(MOST_WAITS):  # a busy machine draws late
            if not (overlaps := page.evaluate(OVERLAPS, LEAST_OVERLAP)):
                break
            page.wait_for_timeout(REDRAWN_MS)
        violations = page.evaluate(VIOLATIONS)
        assert [(each["id"], each["nodes"][0]["html"]) for each in violations] == []
        assert wide <= width
        assert overlaps == []
    for name in PICTURES.keys() & {
        page_file.stem,
        *(each for each in WITHIN if WITHIN[each] == page_file.stem),
    }:
        part = PICTURES[name][1]
        assert not part or part_of(page, part).is_visible(), name
    page.close()
    if page_file.stem in PICTURES and request.config.getoption("--update-golden"):
        take_picture(browser, page_file)


def take_picture(browser: Any, file: Path) -> None:
    """Write the picture of a page; a part of a page is taken whole where it fits into the window."""
    part = PICTURES[file.stem][1]
    page = open_page(browser, file, WIDTH, PART_HEIGHT if part else TOP_HEIGHT, device_scale_factor=SCALE)
    (IMAGES / f"{file.stem}.png").write_bytes(part_of(page, part).screenshot())
    page.close()


def test_pages_show_every_picture_and_no_other() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {
        name
        for page in pages
        for name in re.findall(r"images/([\w-]+)\.png", page.read_text(encoding="utf-8"))
    }
    assert shown == set(PICTURES) == {file.stem for file in IMAGES.glob("*.png")}

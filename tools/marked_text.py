"""Replace a generated part of a page: what stands between `<!-- begin NAME -->` and `<!-- end NAME -->`."""

from pathlib import Path


def replace_marked(page: Path, name: str, text: str) -> None:
    """Write the text between the page's marks.

    Raises: ValueError: the page does not have both marks once.
    """
    old = page.read_text(encoding="utf-8")
    begin = f"<!-- begin {name} -->\n"
    end = f"<!-- end {name} -->"
    if old.count(begin) != 1 or old.count(end) != 1:
        raise ValueError(f"{page} needs the marks {begin.strip()} and {end} once each")
    head, rest = old.split(begin)
    _, tail = rest.split(end)
    page.write_text(f"{head}{begin}\n{text.strip()}\n\n{end}{tail}", encoding="utf-8")

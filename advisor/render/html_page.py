"""Answers as one page without outside resources: it opens offline, prints, and follows light and dark mode."""

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import count
from typing import Final

from advisor.catalog.legible import legible, legible_in
from advisor.render.answer import Answer, Block, Paragraph, Section, Table, Tile, columns
from advisor.render.document import Json, flatten
from advisor.render.html_blocks import blocks_html, link_addresses
from advisor.render.html_what_if import ID as WHAT_IF
from advisor.render.html_what_if import TITLE as WHAT_IF_TITLE
from advisor.render.html_what_if import what_if_html, what_if_script

BUNDLE: Final = "echarts-slim.js"
LICENCES: Final = "echarts-slim.LICENSES.txt"
POLICY: Final = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
"""Content security policy with which the browser refuses every request to a network."""
LONG_TITLE: Final = 110
"""Length from which a headline is set in smaller type [characters]."""
_LOGO: Final = (
    '<svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="7" fill="#0b5cad"/>'
    '<path d="M7 23.5 13.5 15l4.5 4L25 9" fill="none" stroke="#fff" stroke-width="3" stroke-linecap="round" '
    'stroke-linejoin="round"/><circle cx="25" cy="9" r="2.6" fill="#ffb454"/></svg>'
)
_ICONS: Final = (
    '<svg class="sun" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" '
    'aria-hidden="true"><circle cx="12" cy="12" r="4"/><path d="M12 2v2m0 16v2M4.9 4.9l1.4 1.4m11.4 11.4 1.4 1.4M2 '
    '12h2m16 0h2M4.9 19.1l1.4-1.4M17.7 6.3l1.4-1.4"/></svg><svg class="moon" viewBox="0 0 24 24" fill="none" '
    'stroke="currentColor" stroke-width="2" stroke-linejoin="round" aria-hidden="true"><path d="M20 14.5A8.5 8.5 0 0 1 '
    '9.5 4a8.5 8.5 0 1 0 10.5 10.5z"/></svg>'
)
_EARLY_THEME: Final = (
    'try{const t=localStorage.getItem("advisor-theme");if(t)document.documentElement.dataset.theme=t}catch{}'
)


def as_html(answer: Answer, content: Mapping[str, Json]) -> str:
    """Return the page: the answer first, then its inputs and origin.

    The charting library is part of the page only where there is a chart.
    """
    answer = replace(legible_in(replace(answer, svg="")), svg=answer.svg)
    content = legible_in(content)
    title, sections = _split_headline(answer)
    sections = [*sections, *_closing(answer, content)]
    numbers = count(1)

    def new_id() -> str:
        return f"part-{next(numbers)}"

    bodies = [blocks_html(section.blocks, new_id) for section in sections]
    drawing = (
        f'<section aria-label="Drawing"><div class="drawing">{legible(answer.svg)}</div></section>'
        if answer.svg
        else ""
    )
    body = "\n".join(
        f'<section id="s{i}" aria-labelledby="h{i}"><h2 id="h{i}">{html.escape(section.title)}</h2>\n{body}\n</section>'
        for i, (section, body) in enumerate(zip(sections, bodies, strict=True), start=1)
    )
    what_if = content.get("what_if")
    controls = what_if_html(what_if) if isinstance(what_if, dict) else ""
    has_charts = any('<figure class="chart"' in body for body in bodies)
    return "\n".join(
        [
            _head(title),
            _bar(sections, has_controls=bool(controls)),
            '<main class="wrap" id="main">',
            _answer(title, answer, content),
            drawing,
            controls,
            body,
            f"<footer>{html.escape(origin(content))}</footer>",
            "</main>",
            *_scripts(has_charts=has_charts, controls=_control_scripts(what_if)),
            "</body></html>\n",
        ]
    )


def origin(content: Mapping[str, Json]) -> str:
    """Return a line with program, data and seed."""
    return f"advisor {content['tool_version']}, catalog {content['catalog_version']}, seed {content['seed']}"


def _split_headline(answer: Answer) -> tuple[str, list[Section]]:
    """Return the headline, and the sections without it; an answer without sections gets one section with its blocks."""
    headline = next((b for b in answer.blocks if isinstance(b, Paragraph) and b.emphasis), None)
    title = headline.text if headline else _title(answer.blocks)
    parts = answer.sections or (Section("Result", answer.blocks),)
    sections = [
        replace(part, blocks=tuple(block for block in part.blocks if not _says(block, title)))
        for part in parts
    ]
    return title, [section for section in sections if section.blocks]


def _says(block: Block, title: str) -> bool:
    return isinstance(block, Paragraph) and block.emphasis and block.text == title


def _title(blocks: Sequence[Block]) -> str:
    """Return a title for an answer without headline: its first table's, else its first sentence."""
    titles = [block.title for block in blocks if isinstance(block, Table) and block.title]
    sentences = [block.text.split(". ")[0].split("\n")[0] for block in blocks if isinstance(block, Paragraph)]
    return next(iter([*titles, *sentences]), "Answer").rstrip(".")


def _closing(answer: Answer, content: Mapping[str, Json]) -> Iterator[Section]:
    """Yield the last sections of every page: the question as understood, and the inputs and origin of the answer."""
    flat = {name: value for name, value in flatten(content["inputs"]).items() if value not in (None, "")}
    rows = tuple(
        (name, str(value).lower() if isinstance(value, bool) else str(value)) for name, value in flat.items()
    )
    notes = tuple(Paragraph(f"- {note}") for note in answer.notes)
    if rows or notes:
        yield Section("Inputs", (*_note_blocks(notes), Table(columns("input | value~"), rows, title="")))
    yield Section("Provenance", (Paragraph(_provenance(content)),))


def _note_blocks(notes: Sequence[Paragraph]) -> tuple[Block, ...]:
    return (Paragraph("\n".join(note.text for note in notes)),) if notes else ()


def _provenance(content: Mapping[str, Json]) -> str:
    return (
        f"- advisor {content['tool_version']}, document schema {content['schema_version']}\n"
        f"- catalog {content['catalog_version']}: a hash over its data files; the same hash and inputs give the same "
        f"answer\n- seed {content['seed']} of everything random\n"
        "- sources of single figures: `advisor catalog show ID` for hardware, models and engines, `advisor catalog "
        "prices` for prices with date and address; the JSON form of this answer (`-o FILE.json`) holds every number"
    )


def _head(title: str) -> str:
    icon = (
        _LOGO.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
        .replace("#", "%23")
        .replace('"', "'")
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{html.escape(title)} - advisor</title>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:image/svg+xml,{icon}">\n'
        f"<script>{_EARLY_THEME}</script>\n<style>\n{asset('report.css')}</style></head>"
    )


def _bar(sections: Sequence[Section], *, has_controls: bool) -> str:
    links = f'<a href="#{WHAT_IF}">{WHAT_IF_TITLE}</a>' if has_controls else ""
    links += "".join(
        f'<a href="#s{i}">{html.escape(section.title)}</a>' for i, section in enumerate(sections, start=1)
    )
    return (
        '<body>\n<a class="skip" href="#main">Skip to the answer</a>\n<header class="bar"><div class="wrap">'
        f'<a class="brand" href="#main">{_LOGO}advisor</a><nav class="contents" aria-label="Contents">{links}</nav>'
        f'<button type="button" class="switch" aria-label="Switch colours">{_ICONS}</button></div></header>'
    )


def _answer(title: str, answer: Answer, content: Mapping[str, Json]) -> str:
    tiles = "".join(_tile(tile) for tile in answer.tiles)
    warnings = "".join(f"<li>{link_addresses(warning)}</li>" for warning in answer.warnings)
    as_of = content["inputs"].get("as_of") if isinstance(content["inputs"], dict) else None
    kind = str(content.get("kind") or "").replace("_", " ")
    eyebrow = " · ".join(str(word) for word in (kind, f"prices as of {as_of}" if as_of else None) if word)
    return "\n".join(
        filter(
            None,
            [
                '<div class="answer">',
                f'<p class="eyebrow">{html.escape(eyebrow)}</p>' if eyebrow else "",
                f"<h1{_size(title)}>{html.escape(title)}</h1>",
                f'<p class="question">{link_addresses(answer.question)}</p>' if answer.question else "",
                f'<dl class="tiles">{tiles}</dl>' if tiles else "",
                f'<ul class="alerts" aria-label="Warnings">{warnings}</ul>' if warnings else "",
                "</div>",
            ],
        )
    )


def _size(title: str) -> str:
    return ' class="long"' if len(title) > LONG_TITLE else ""


def _tile(tile: Tile) -> str:
    note = f'<dd class="note">{html.escape(tile.note)}</dd>' if tile.note else ""
    return (
        f'<div class="tile"><dt>{html.escape(tile.label)}</dt><dd class="value">{html.escape(tile.value)}</dd>'
        f"{note}</div>"
    )


def _scripts(*, has_charts: bool, controls: Sequence[str]) -> Iterator[str]:
    if has_charts:
        yield f"<!--\n{asset(LICENCES)}-->"
        yield f"<script>{asset(BUNDLE)}</script>"
    yield f"<script>\n{asset('report.js')}</script>"
    for name in controls:
        yield f"<script>\n{asset(name)}</script>"


def _control_scripts(what_if: object) -> tuple[str, ...]:
    """Return the scripts of the controls: what all share, then the formulas of this kind."""
    return ("what_if.js", what_if_script(what_if)) if isinstance(what_if, dict) else ()


@cache
def asset(name: str) -> str:
    """Return the text of a file that is part of every page."""
    return (files("advisor.render") / "assets" / name).read_text(encoding="utf-8")

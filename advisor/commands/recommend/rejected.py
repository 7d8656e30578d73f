"""Why accelerators are not among the answers, as every recommendation tells it."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from advisor.recommend.result import Rejected
from advisor.render.answer import Block, Paragraph, Table, columns

_MOST_LINES: Final = 8


def rejected_tables(rejected: Sequence[Rejected], *, most: int, everything: bool) -> list[Block]:
    """Accelerators that are not among the answers, those with the same reason together; at most `most` reasons."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for entry in rejected:
        by_reason[entry.reason].append(entry.accelerator)
    if not by_reason:
        return []
    reasons = list(by_reason.items())
    shown = reasons if everything else reasons[:most]
    rows = tuple((_names(names, everything), reason) for reason, names in shown)
    title = f"Why not the other {len(rejected)} accelerators"
    blocks: list[Block] = [Table(columns("accelerator~ | reason~"), rows, title=title)]
    if len(shown) < len(reasons):
        blocks.append(Paragraph(f"{len(reasons) - len(shown)} more reasons with --explain or --json."))
    return blocks


def rejected_words(rejected: Sequence[Rejected], *, everything: bool) -> list[Block]:
    """The same in lines, one for each accelerator; the first few where not everything is asked for."""
    shown = rejected if everything else rejected[:_MOST_LINES]
    more = len(rejected) - len(shown)
    lines = [f"{item.accelerator}: {item.reason}" for item in shown]
    if more:
        lines.append(f"{more} more with --explain.")
    return [Paragraph("\n".join(["Not among them:", *lines]))] if shown else []


def _names(names: Sequence[str], everything: bool) -> str:
    if everything or len(names) <= 4:
        return ", ".join(names)
    return f"{', '.join(names[:3])} and {len(names) - 3} more"

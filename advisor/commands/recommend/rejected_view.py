"""Why accelerators are not among the answers, as every recommendation tells it."""

from collections import defaultdict
from collections.abc import Sequence

from advisor.recommend.result import Rejected
from advisor.render.answer import Block, Column, Paragraph, Table


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
    blocks: list[Block] = [
        Table((Column("accelerator", fold=True), Column("reason", fold=True)), rows, title=title)
    ]
    if len(shown) < len(reasons):
        blocks.append(Paragraph(f"{len(reasons) - len(shown)} more reasons with --explain or --json."))
    return blocks


def _names(names: Sequence[str], everything: bool) -> str:
    if everything or len(names) <= 4:
        return ", ".join(names)
    return f"{', '.join(names[:3])} and {len(names) - 3} more"

"""A drawing of nodes and accelerators with the exchanges that each fabric carries, legible on a phone and on a desk."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 360
"""Width of the drawing in its own units; a phone shows about 340 pixels."""
WIDEST: Final = 560
"""Width on a page that has more room [pixels]."""
_COLUMNS: Final = 4
_MOST_CELLS: Final = 8
"""Accelerators of a node that are drawn."""
_MOST_NODES: Final = 2
_CELL: Final = 30
_GAP: Final = 8
FONT: Final = 11
_RANK_FONT: Final = 9
"""Size of a rank's number, of which six digits fit into a cell."""


@dataclass(frozen=True, slots=True)
class RankGroups:
    """Groups of one kind of parallelism."""

    name: str
    num_ranks: int
    stride: int
    """Accelerators between neighbouring ranks of a group, which are numbered through a node before the next begins."""

    def words(self, ranks_in_node: int) -> str:
        """Return the degree, with the ranks that share a node where a group has several nodes."""
        part = f", {ranks_in_node} a node" if 1 < ranks_in_node < self.num_ranks else ""
        return f"{self.name} {self.num_ranks}{part}"

    def ranks_in_node(self, node_size: int) -> int:
        """Return how many ranks of a group share one node."""
        return max(1, min(self.num_ranks, node_size // max(1, self.stride)))


def carried_inside(exchanges: Sequence[RankGroups], node_size: int) -> tuple[RankGroups, ...]:
    """Return the exchanges that the fabric of a node carries: groups of which a node holds several ranks."""
    return tuple(each for each in exchanges if each.num_ranks > 1 and each.ranks_in_node(node_size) > 1)


def carried_between(exchanges: Sequence[RankGroups], node_size: int) -> tuple[RankGroups, ...]:
    """Return the exchanges that the network between nodes carries: groups that no single node holds."""
    return tuple(each for each in exchanges if each.ranks_in_node(node_size) < each.num_ranks)


def topology_svg(
    accelerator: str,
    num_accelerators: int,
    accelerators_per_node: int,
    exchanges: Sequence[RankGroups],
    *,
    what: str = "",
    node: str = "node",
) -> str:
    """Return the drawing: the first and the last node, the accelerators of each, and what each fabric carries.

    `what` begins the title; `node` is the word for the machines that one fabric connects.
    """
    node_size = min(num_accelerators, accelerators_per_node)
    num_nodes = -(-num_accelerators // node_size)
    shown = [0] if num_nodes == 1 else [0, num_nodes - 1][:_MOST_NODES]
    inside = carried_inside(exchanges, node_size)
    between = carried_between(exchanges, node_size)
    rows = -(-min(node_size, _MOST_CELLS) // _COLUMNS)
    box_height = 26 + rows * (_CELL + _GAP) + 24
    box_width = _COLUMNS * (_CELL + _GAP) + _GAP
    top = 30
    legend = [
        *(
            f"{each.words(each.ranks_in_node(node_size))}: inside a {node}"
            for each in inside
            if each not in between
        ),
        *(f"{each.words(each.ranks_in_node(node_size))}: between {node}s" for each in between),
    ] or ["one accelerator: no exchange"]
    network_y = top + box_height + 14
    legend_y = network_y + (40 if num_nodes > 1 else 6)
    height = legend_y + len(legend) * 16 + 4
    title = f"{what}{num_accelerators} x {accelerator} in {num_nodes} {node}{'s' if num_nodes > 1 else ''}"
    about = f"{title}. {'. '.join(legend)}."
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="100%" '
        f'style="max-width:{WIDEST}px" role="img" aria-label="{escape(about, quote=True)}" '
        f'font-family="sans-serif" font-size="{FONT}" fill="#1b1f24">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="8" y="18" font-size="13">{escape(title)}</text>',
    ]
    left = (WIDTH - len(shown) * box_width) // (len(shown) + 1)
    for place, number in enumerate(shown):
        x = left + place * (box_width + left)
        parts += _node(
            x, top, box_width, box_height, f"{node} {number + 1}", number * node_size, node_size, inside
        )
        if num_nodes > 1:
            middle = x + box_width // 2
            parts.append(
                f'<path d="M{middle} {top + box_height}V{network_y}" stroke="#b3541e" stroke-width="3"/>'
            )
    if num_nodes > 1:
        names = _names(between)
        parts.append(f'<rect x="8" y="{network_y}" width="{WIDTH - 16}" height="22" rx="4" fill="#b3541e"/>')
        parts.append(_text(WIDTH // 2, network_y + 15, f"network between {node}s{names}", "#ffffff"))
        if num_nodes > len(shown):
            middle_y = top + box_height // 2
            parts.append(_text(WIDTH // 2, middle_y, "…", "#1b1f24"))
    parts += [
        f'<text x="8" y="{legend_y + 12 + 16 * line}">{escape(words)}</text>'
        for line, words in enumerate(legend)
    ]
    return "\n".join([*parts, "</svg>\n"])


def _names(exchanges: Sequence[RankGroups]) -> str:
    return f": {', '.join(each.name for each in exchanges)}" if exchanges else ""


def _text(x: int, y: int, words: str, fill: str, *, size: int = FONT) -> str:
    return (
        f'<text x="{x}" y="{y}" text-anchor="middle" font-size="{size}" fill="{fill}">{escape(words)}</text>'
    )


def _node(
    x: int,
    y: int,
    width: int,
    height: int,
    name: str,
    first_rank: int,
    node_size: int,
    inside: Sequence[RankGroups],
) -> list[str]:
    """Return one node: its name, cells with ranks, and the fabric between them."""
    few = f", {_MOST_CELLS} of {node_size}" if node_size > _MOST_CELLS else ""
    parts = [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="#f4f6f8" stroke="#8a949e"/>',
        f'<text x="{x + _GAP}" y="{y + 16}">{escape(name)}{few}</text>',
    ]
    for cell in range(min(node_size, _MOST_CELLS)):
        left = x + _GAP + cell % _COLUMNS * (_CELL + _GAP)
        top = y + 24 + cell // _COLUMNS * (_CELL + _GAP)
        parts.append(
            f'<rect x="{left}" y="{top}" width="{_CELL}" height="{_CELL}" rx="4" fill="#dbe7f3" stroke="#0b5cad"/>'
        )
        parts.append(_text(left + _CELL // 2, top + 19, str(first_rank + cell), "#1b1f24", size=_RANK_FONT))
    fabric_y = y + height - 24
    parts.append(
        f'<rect x="{x + _GAP}" y="{fabric_y}" width="{width - 2 * _GAP}" height="18" rx="4" fill="#0b5cad"/>'
    )
    parts.append(_text(x + width // 2, fabric_y + 13, f"fabric{_names(inside)}", "#ffffff"))
    return parts

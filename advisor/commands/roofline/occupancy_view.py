"""How a kernel fills an SM, as an answer."""

from collections.abc import Mapping

from advisor.catalog.units import KIB
from advisor.render.answer import Answer, Paragraph, Table, columns
from advisor.render.numbers import digits, percent
from advisor.simulator.occupancy import Occupancy, SmLimits


def occupancy_answer(
    found: Occupancy, limits: SmLimits, inputs: Mapping[str, object], notes: tuple[str, ...]
) -> Answer:
    """Blocks per SM, what ends first, and what each resource alone would allow."""
    blocks = "1 block" if found.blocks_per_sm == 1 else f"{found.blocks_per_sm} blocks"
    headline = (
        f"{blocks} per SM, {found.warps_per_sm} of {found.max_warps_per_sm} warps: "
        f"occupancy {percent(found.fraction)}, limited by {' and '.join(found.limits)}"
    )
    rows = tuple((name, str(count)) for name, count in found.blocks_by_limit.items())
    left = (
        f"{digits(found.shared_bytes_left / KIB)} of {digits(limits.shared_bytes / KIB)} KiB of shared memory stay "
        "free on each SM; a block's share includes what the driver reserves."
    )
    return Answer(
        result={
            "occupancy": {
                "blocks_per_sm": found.blocks_per_sm,
                "warps_per_sm": found.warps_per_sm,
                "max_warps_per_sm": found.max_warps_per_sm,
                "occupancy_fraction": found.fraction,
                "limited_by": found.limits,
                "blocks_by_limit": found.blocks_by_limit,
                "shared_bytes_left": found.shared_bytes_left,
            },
            "sm_limits": limits,
        },
        inputs=inputs,
        blocks=(
            Paragraph(headline, emphasis=True),
            Table(columns("resource | blocks it allows>"), rows),
            Paragraph(left),
        ),
        notes=notes,
    )

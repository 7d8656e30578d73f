"""How sure the first option beats each of the others."""

import math
from collections.abc import Sequence

from advisor.recommend.ranking import Planned, chance_cheaper, log_error
from advisor.recommend.result import Comparison
from advisor.simulator.intervals import pair_class
from advisor.simulator.quantity import Quantity, weakest


def compared(order: Sequence[Planned]) -> tuple[Comparison, ...]:
    """The first option against each of the others, by what they may really cost.

    Source: recommend.ranking.
    """
    found, first = [], order[0]
    for rank, option in enumerate(order[1:], start=2):
        ratio, factor = option.expected_cost / first.expected_cost, math.exp(log_error(first, option))
        basis = weakest(first.found.replica.basis, option.found.replica.basis)
        found.append(
            Comparison(
                rank,
                option.found.accelerator_id,
                pair_class(first.found.replica, option.found.replica),
                Quantity(ratio, ratio / factor, ratio * factor, basis),
                chance_cheaper(first, option),
            )
        )
    return tuple(found)

"""How sure the first option beats the others, and the prices and needs at which another wins."""

import math
from collections.abc import Sequence

from advisor.recommend.ranking import Planned, chance_cheaper, log_error
from advisor.recommend.result import Comparison, Option
from advisor.recommend.scenario import Scenario
from advisor.simulator.intervals import pair_class
from advisor.simulator.quantity import Quantity, weakest

_SURE = 0.9
"""Chance from which on an order counts as settled."""


def what_would_change(
    scenario: Scenario, options: tuple[Option, ...], comparisons: tuple[Comparison, ...]
) -> tuple[str, ...]:
    """Short sentences: break-even prices of the runners-up, orders that are open, the objective that binds.

    Source: own definition; costs are linear in the hourly price.
    """
    first, sentences = options[0], _surest(options)
    for option in options[1:3]:
        ratio = first.usd_per_million_tokens.value / option.usd_per_million_tokens.value
        per_accelerator = option.usd_per_hour / option.num_accelerators
        sentences.append(
            f"{option.accelerator} wins below ${per_accelerator * ratio:.2f} per accelerator and hour "
            f"(now ${per_accelerator:.2f} at {option.provider})"
        )
    close = [each.accelerator for each in comparisons if each.chance_first_is_cheaper < _SURE]
    if close:
        sentences.append(
            f"within the model's error the order against {', '.join(close)} is open: "
            "benchmark both before a long contract"
        )
    binding = next(
        (each for each in scenario.objectives.levels if each.metric == first.binding_objective), None
    )
    if binding is not None:
        sentences.append(
            f"{binding.name} binds: a limit above {binding.limit_s:g} s lets the same hardware carry more"
        )
    if not scenario.constraints.precisions and first.weight_dtype in ("bf16", "fp16", "fp8"):
        sentences.append(
            "4-bit weights were not considered: --precision int4 or nvfp4 if your quality tests allow them"
        )
    return tuple(sentences)


def _surest(options: tuple[Option, ...]) -> list[str]:
    """Where the first option rests on borrowed kernel parameters: the cheapest one that does not."""
    first = options[0]
    if first.usd_per_million_tokens.basis != "assumed":
        return []
    measured = next((option for option in options if option.usd_per_million_tokens.basis != "assumed"), None)
    lead = f"{first.accelerator} is predicted with kernel parameters of related hardware"
    if measured is None:
        return [f"{lead}, and so are its rivals: benchmark before you commit"]
    return [
        f"{lead}; the cheapest whose own kernels were measured is {measured.accelerator}, "
        f"option {measured.rank}, at ${measured.usd_per_million_tokens.value:.2g} per million tokens"
    ]


def compared(order: Sequence[Planned]) -> tuple[Comparison, ...]:
    """The first option against each of the others, by what they may really cost."""
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

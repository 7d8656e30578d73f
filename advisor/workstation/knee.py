"""Value for money: the extra speed of each machine that costs more, and the price above which money buys little."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from advisor.catalog import accelerators
from advisor.workstation import finetune
from advisor.workstation.hardware import HardwareRun
from advisor.workstation.plan import Build

WORTH_IT: Final = 0.5
"""Ratio of speed growth to price growth, both as fractions, from which a step is worth its money."""


@dataclass(frozen=True, slots=True)
class PriceStep:
    """Step from one machine to the next one that costs more and is faster."""

    name: str
    total_usd: float
    tokens_per_s: float
    """Output rate by which the knee is chosen [tokens/s]."""
    ranked_tokens_per_s: float
    """Output rate over whole requests, by which rows are ranked [tokens/s]."""
    more_usd: float
    more_speed_fraction: float

    def words_beyond(self, best: "PriceStep") -> str:
        """Words such as `+11 % speed for +$19,000 (4 x rtx-5090)` on the gain over a cheaper machine."""
        gain = 100 * (self.ranked_tokens_per_s / best.ranked_tokens_per_s - 1.0)
        doubt = ", if what is not measured holds," if self.tokens_per_s < self.ranked_tokens_per_s else ""
        return f"{gain:+.0f} % speed{doubt} for +${self.total_usd - best.total_usd:,.0f} ({self.name})"


def is_beaten(build: Build, builds: Sequence[Build]) -> bool:
    """Whether another machine is faster for no more money; second-hand ones beat none."""
    return any(
        other.total_usd <= build.total_usd and dependable_speed_of(other) > speed_of(build)
        for other in builds
        if other is not build and not other.is_used
    )


def speed_of(build: Build) -> float:
    """Output rate of a machine over whole requests [tokens/s]; 0 if it does not run the model."""
    return build.performance.run.request_tokens_per_s if build.performance else 0.0


def dependable_speed_of(build: Build) -> float:
    """Output rate of a machine by which the knee is chosen [tokens/s]; 0 if it does not run the model.

    Assumes: cards of another vendor than NVIDIA reach the speed of tensor parallelism only where a run was measured. A
    machine whose speed rests on it otherwise counts with its best run on another engine. Fine-tuning on such cards
    counts with the low end of its interval. Own choice.
    """
    run = build.performance
    if run is not None and software_doubt(build):
        return run.decode_tokens_per_s.low
    if run is None or run.run.tensor_parallel < 2 or run.decode_tokens_per_s.basis != "assumed":
        return speed_of(build)
    cards = build.machine.cards if build.machine is not None else None
    others = [other.request_tokens_per_s for other in run.other_runs]
    if not others or cards is None or all(_is_nvidia(name) for name in cards.accelerators):
        return speed_of(build)
    return min(speed_of(build), max(others))


def sure_run(build: Build) -> HardwareRun | None:
    """Return the best run of a machine on another engine if the fastest run is only assumed and that one is not, else
    the fastest: an assumed figure beats no calibrated one. None if no engine runs the model."""
    found = build.performance
    if found is None:
        return None
    others = [one for one in found.other_runs if one.output_tokens_per_s.basis != "assumed"]
    if found.decode_tokens_per_s.basis != "assumed" or not others:
        return found.run
    return max(others, key=lambda run: run.request_tokens_per_s)


def sure_speed_of(build: Build) -> float:
    """Return the speed of the surest run of a machine over whole requests [tokens/s]; 0 if none runs the model."""
    run = sure_run(build)
    return run.request_tokens_per_s if run is not None else 0.0


def software_doubt(build: Build) -> str:
    """Return words on the software of fine-tuning on a machine's cards; empty if there is no doubt, or it serves."""
    run = build.performance
    if run is None or run.run.engine != finetune.ENGINE:
        return ""
    cards = build.machine.cards if build.machine is not None else None
    if cards is None:
        return ""
    vendors = (accelerators.by_id(name).vendor for name in cards.accelerators)
    return next(filter(None, (finetune.SOFTWARE_DOUBTS.get(vendor, "") for vendor in vendors)), "")


def _is_nvidia(accelerator: str) -> bool:
    return accelerators.by_id(accelerator).vendor == "nvidia"


def steps(builds: Sequence[Build]) -> tuple[PriceStep, ...]:
    """Return the machines that no other beats in price and speed, cheapest first, each with its gain over the previous
    one; second-hand machines, and cards that are also sold new, are no steps."""
    found: list[PriceStep] = []
    speeds = (
        (build, dependable_speed_of(build))
        for build in builds
        if build.performance and not build.is_used and not is_beaten(build, builds)
    )
    for build, speed in sorted(speeds, key=lambda pair: (pair[0].total_usd, -pair[1])):
        last = found[-1] if found else None
        if last is None or speed > last.tokens_per_s:
            more_usd = build.total_usd - last.total_usd if last is not None else 0.0
            gain = speed / last.tokens_per_s - 1.0 if last is not None else 0.0
            found.append(PriceStep(build.name, build.total_usd, speed, speed_of(build), more_usd, gain))
    return tuple(found)


def knee(found: Sequence[PriceStep]) -> PriceStep | None:
    """Return the most expensive machine that is worth its money against the last one that is; None if none runs the
    model.

    Source: own definition, WORTH_IT.
    """
    best: PriceStep | None = None
    for step in found:
        if best is None:
            best = step
            continue
        gain = step.tokens_per_s / best.tokens_per_s - 1.0
        # A machine that the user has costs nothing: a step from it counts as one to twice the price.
        dearer = step.total_usd / best.total_usd - 1.0 if best.total_usd else 1.0
        if gain >= WORTH_IT * dearer:
            best = step
    return best


def knee_words(found: Sequence[PriceStep], builds: Sequence[Build] = ()) -> str:
    """Return words on where extra money stops buying speed, and what the machines beyond add; empty for one machine,
    and where one of the `builds` that is no step, such as one of second-hand parts, is faster."""
    best = knee(found)
    if best is None or len(found) < 2:
        return ""
    names = {step.name for step in found}
    if any(build.name not in names and speed_of(build) > best.ranked_tokens_per_s for build in builds):
        return ""
    beyond = [step for step in found if step.total_usd > best.total_usd]
    if not beyond:
        return f"No machine here that costs more than {best.name} is faster."
    over = "; ".join(step.words_beyond(best) for step in beyond)
    return f"The knee: {best.name} for ${best.total_usd:,.0f}; beyond it {over}."

"""A trace, described."""

from pathlib import Path

from advisor.render.answer import Answer, Figure, Paragraph, Table, columns
from advisor.render.numbers import MISSING, TIME, digits, percent, show
from advisor.simulator.serving.trace_replay import LengthFit, TraceFit, shared_prefixes_like


def trace_answer(
    fit: TraceFit, path: Path, speed: float, notes: tuple[str, ...], *, has_times: bool
) -> Answer:
    """Return rate, burstiness, lengths, common beginnings; and a load for a fleet file that is like it."""
    rate = MISSING if fit.rate_per_s is None else f"{digits(fit.rate_per_s)} requests/s"
    bursty = (
        ""
        if fit.burstiness_cv is None
        else f", gaps with a coefficient of variation of {digits(fit.burstiness_cv)} (1 is Poisson)"
    )
    headline = f"{fit.num_requests:,} requests in {show(fit.duration_s, TIME)}: {rate}{bursty}"
    if not has_times:
        headline = f"{fit.num_requests:,} requests; no column that is read says when each came"
    rows = tuple(_row(name, lengths) for name, lengths in (("prompt", fit.inputs), ("answer", fit.outputs)))
    headers = ("tokens", "mean", "p50", "p99", "max", "sigma", "distance from lognormal")
    common = (
        "The trace does not say which prompts begin alike."
        if fit.prefix_hit_fraction is None
        else f"{percent(fit.prefix_hit_fraction)} of the prompt tokens came before: what a cache that never evicts "
        f"would find. Prefixes that several prompts share: {fit.num_shared_prefixes}."
    )
    advice = (
        "Lognormal lengths stand for it."
        if fit.lengths == "lognormal"
        else "Its lengths are not lognormal: draw them from the trace (empirical), or replay it."
    )
    return Answer(
        result={"fit": fit},
        inputs={"trace": path, "speed": speed},
        notes=notes,
        blocks=(
            Paragraph(headline, emphasis=True),
            Table(columns(*headers), rows),
            Paragraph(f"{common}\n{advice}"),
            Figure(_load_table(fit), title="Traffic like it, for a fleet file"),
        ),
    )


def _row(name: str, fit: LengthFit) -> tuple[str, ...]:
    numbers = (
        fit.mean_tokens,
        fit.p50_tokens,
        fit.p99_tokens,
        float(fit.max_tokens),
        fit.sigma,
        fit.distance,
    )
    return (name, *(digits(number) for number in numbers))


def _load_table(fit: TraceFit) -> str:
    """Return a [[load]] of a fleet file."""
    inputs = round(fit.inputs.mean_tokens)
    outputs = round(fit.outputs.mean_tokens)
    rate = (
        "R  # requests/s, which the trace does not tell" if fit.rate_per_s is None else digits(fit.rate_per_s)
    )
    lines = ["[[load]]", f"rate = {rate.replace(',', '') if fit.rate_per_s else rate}"]
    if fit.burstiness_cv is not None:
        lines.append(f"burstiness = {digits(max(0.05, fit.burstiness_cv)).replace(',', '')}")
    lines += [f"requests = {fit.num_requests}", f"input_tokens = {inputs}", f"output_tokens = {outputs}"]
    lines += [
        f"{name} = {digits(lengths.sigma)}"
        for name, lengths in (("spread", fit.inputs), ("output_spread", fit.outputs))
    ]
    if (shared := shared_prefixes_like(fit, fit.num_requests)) is not None:
        tokens = min(inputs - 1, shared.num_tokens)
        lines += [f"shared_prefix_tokens = {tokens}", f"shared_prefixes = {shared.num_prefixes}"]
    return "\n".join(lines)

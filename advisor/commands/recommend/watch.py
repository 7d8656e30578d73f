"""Watched plans: the question of a saved plan at today's prices, and whether the option that was taken still stands."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from advisor.ask.options import SharedOptions
from advisor.ask.own_data import kept_prices
from advisor.ask.work import Shown
from advisor.catalog.errors import AdvisorError, InfeasibleError, InputFileError, UnknownNameError
from advisor.commands.recommend.plan_file import AnyScenario, plan_text, read_plan
from advisor.decide.scenario import Scenario
from advisor.render.answer import Answer
from advisor.render.document import Json, to_json
from advisor.render.document_comparison import DocumentComparison, compare_documents
from advisor.render.paired_documents import at

Finding = Literal["beaten", "price_rose", "costs_more", "gone", "unreadable"]
"""beaten: another option costs less by the threshold. price_rose: its offer costs more by the threshold. costs_more:
its bill is higher by the threshold at an equal price. gone: no offer or no capacity is left. unreadable: no plan."""
_LAYOUT: Final = (
    "engine",
    "weight_dtype",
    "kv_dtype",
    "tensor_parallel",
    "pipeline_parallel",
    "expert_parallel",
    "data_parallel",
    "context_parallel",
)
"""Fields of a layout that make it the same deployment; the number of replicas follows from the load."""


@dataclass(frozen=True, slots=True)
class WatchedOption:
    """An option and its cost, read from the document of a plan or from an answer of today."""

    accelerator: str
    num_accelerators: int
    layout: Mapping[str, Json]
    provider: str | None
    """None for hardware that is already there."""
    sku: str | None
    region: str | None
    term: str | None
    usd_per_unit_hour: float | None
    """Price of one unit of the offer [USD/h]; None for hardware that is already there."""
    bill_usd: float
    """The bill of a month; of a job its whole bill [USD]."""
    cost_usd: float
    """Figure by which options are ranked: expected cost of a million tokens, or the bill of the job [USD]."""
    is_safe: bool = False
    """Whether it is the safe pick of its answer."""
    doubts: tuple[str, ...] = ()
    """Doubts of the answer about the option, for people: an old price, a capacity that may not hold."""

    @property
    def identity(self) -> tuple[object, ...]:
        """Return the fields by which two options are the same purchase of the same deployment, whatever it costs."""
        return (self.accelerator, *self.offer, tuple(sorted(map(str, self.layout.items()))))

    @property
    def offer(self) -> tuple[str | None, ...]:
        """Return provider, SKU, region and term."""
        return self.provider, self.sku, self.region, self.term


@dataclass(frozen=True, slots=True)
class WatchedPlan:
    """A plan, what became of the option that was taken, and the best option of today."""

    file: Path
    findings: tuple[Finding, ...]
    taken: WatchedOption | None = None
    """The option as the plan has it; None if the plan cannot be read."""
    held: WatchedOption | None = None
    """The option at today's prices; None if it is gone."""
    best: WatchedOption | None = None
    """The first option of today's answer, or the safe pick where a safe pick was taken; None if there is none."""
    price_change_fraction: float | None = None
    bill_change_fraction: float | None = None
    saving_fraction: float | None = None
    """Part of the option's cost that the best option of today saves; None where it is the best itself."""
    reason: str = ""
    """Why the option is gone, or why the plan cannot be read, for people."""
    fix: str = ""
    since: DocumentComparison | None = None


def watch_plan(
    path: Path, rank: int, threshold: float, price_file: Path | None, since: str | None, shared: SharedOptions
) -> WatchedPlan:
    """Return what became of one plan; a plan that cannot be read is a finding too."""
    try:
        scenario, plan = read_plan(path)
        taken = _read_taken(plan, rank, path)
    except AdvisorError as error:
        return WatchedPlan(
            path, ("unreadable",), reason=f"{error.what}: {error.why}".rstrip(": "), fix=error.fix
        )
    today = _at_today(scenario, price_file, shared)
    try:
        answer = _ask(today, shared)
    except (InfeasibleError, UnknownNameError) as error:  # a provider without any price today is not known
        return WatchedPlan(path, ("gone",), taken, reason=error.what, fix=error.fix)
    options = _options(answer)
    held = next((each for each in options if each.identity == taken.identity), None)
    reason = ""
    if held is None:
        held, reason = _find_again(taken, today, shared)
    best = _best(answer, was_safe=taken.is_safe)
    watched = _judge(WatchedPlan(path, (), taken, held, best, reason=reason), threshold)
    if since is None:
        return watched
    return replace(watched, since=_compare_since(since, scenario, plan, today, answer, shared))


def _at_today(scenario: AnyScenario, price_file: Path | None, shared: SharedOptions) -> AnyScenario:
    """Return the question as of today, with the prices that are kept now."""
    prices: dict[str, Any] = {"price_cache": kept_prices()}
    if price_file is not None:
        prices["price_file"] = price_file
    return scenario.model_copy(update={"as_of": shared.as_of}).with_limits(**prices)


def _ask(scenario: AnyScenario, shared: SharedOptions) -> Answer:
    """Return today's answer to a question.

    Raises: InfeasibleError: nothing satisfies it any more.
    """
    if isinstance(scenario, Scenario):
        from advisor.commands.recommend.serving import answer_scenario

        return answer_scenario(scenario, (), Shown(), shared, whole=True)
    from advisor.commands.recommend.training_run import answer_training

    return answer_training(scenario, (), Shown(), shared)


def _read_taken(plan: Mapping[str, Json], rank: int, path: Path) -> WatchedOption:
    """Return the option of a plan by its rank.

    Raises: InputFileError: the plan has no such option, or the option lacks a figure.
    """
    options = plan.get("options")
    records = options if isinstance(options, list) else []
    found = next((each for each in records if isinstance(each, dict) and each.get("rank") == rank), None)
    if found is None:
        ranks = [each.get("rank") for each in records if isinstance(each, dict)]
        raise InputFileError(
            f"{path}: has no option {rank}",
            why=f"its options are {', '.join(map(str, ranks)) or 'none'}",
            fix="--option N names the option that was taken",
        )
    try:
        return _read_option(found)
    except (KeyError, TypeError, ValueError) as error:
        raise InputFileError(
            f"{path}: option {rank} is not complete",
            why=f"it lacks {error}",
            fix="name a file that `advisor recommend --plan` wrote",
        ) from None


def _read_option(record: Mapping[str, Json]) -> WatchedOption:
    """Return an option from its record in a document.

    Raises: KeyError, TypeError, ValueError: a figure is missing or of another kind.
    """
    machine = record["machine"]
    layout = record.get("plan") or record["layout"]
    if not isinstance(machine, dict) or not isinstance(layout, dict):
        raise KeyError("machine or layout")
    offer = record.get("offer")
    own = offer if isinstance(offer, dict) else {}
    job_usd = at(record, "bill.usd.value")
    cost = at(record, "performance.expected_usd_per_million_tokens")
    bill_usd = _number(job_usd if job_usd is not None else at(record, "bill.usd_per_month"), "bill")
    is_served = "plan" not in record
    return WatchedOption(
        accelerator=str(machine["accelerator"]),
        num_accelerators=int(_number(machine["num_accelerators"], "num_accelerators")),
        layout={name: layout.get(name) for name in _LAYOUT} if is_served else layout,
        provider=_text(own.get("provider")),
        sku=_text(own.get("sku")),
        region=_text(own.get("region")),
        term=_text(own.get("term")),
        usd_per_unit_hour=_number(own["usd_per_hour"], "offer.usd_per_hour") if own else None,
        bill_usd=bill_usd,
        cost_usd=_number(cost, "performance") if cost is not None else bill_usd,
        is_safe=record.get("role") == "safe_pick",
        doubts=_read_doubts(record.get("reasons")),
    )


def _read_doubts(reasons: Json) -> tuple[str, ...]:
    """Return the texts of an option's reasons; plans of training have none."""
    records = reasons if isinstance(reasons, list) else []
    return tuple(str(each["text"]) for each in records if isinstance(each, dict) and each.get("text"))


def _number(value: Json, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise ValueError(name)
    return float(value)


def _text(value: Json) -> str | None:
    return None if value is None else str(value)


def _records(answer: Answer) -> Iterator[dict[str, Json]]:
    """Yield the options of an answer as documents have them, other layouts of each accelerator included."""
    options = to_json(answer.result["options"])
    for option in options if isinstance(options, list) else []:
        if isinstance(option, dict):
            yield option
            variants = option.get("variants")
            yield from (
                each for each in (variants if isinstance(variants, list) else []) if isinstance(each, dict)
            )


def _options(answer: Answer) -> list[WatchedOption]:
    return [_read_option(each) for each in _records(answer) if each.get("performance") is not None]


def _best(answer: Answer, *, was_safe: bool) -> WatchedOption:
    """Return the option of today to compare with: a safe pick is only beaten by another one."""
    first = next(_records(answer))
    safe = to_json(answer.result.get("safe_pick"))
    return _read_option(safe if was_safe and isinstance(safe, dict) else first)


def _find_again(
    taken: WatchedOption, today: AnyScenario, shared: SharedOptions
) -> tuple[WatchedOption | None, str]:
    """Return the option that was taken at today's prices, asked for alone; None and the reason if it is gone."""
    limits: dict[str, Any] = {"accelerators": (taken.accelerator,)}
    if taken.provider is not None:
        limits |= {"providers": (taken.provider,), "terms": (taken.term,)}
    if isinstance(today, Scenario):
        limits |= {"engines": (taken.layout["engine"],), "precisions": (taken.layout["weight_dtype"],)}
    else:
        limits |= {"num_accelerators": taken.num_accelerators}
    try:
        options = _options(_ask(today.with_limits(**limits), shared))
    except AdvisorError as error:
        return None, f"{error.what}{f' ({error.why})' if error.why else ''}"
    same = [each for each in options if each.identity == taken.identity]
    alike = [each for each in options if each.layout == taken.layout]
    return next(iter((*same, *alike, *options)), None), ""


def _judge(watched: WatchedPlan, threshold: float) -> WatchedPlan:
    """Return a plan with its findings: what moved by more than the threshold."""
    taken = watched.taken
    held = watched.held
    assert taken is not None
    if held is None:
        return replace(watched, findings=("gone",))
    price = _change(taken.usd_per_unit_hour, held.usd_per_unit_hour)
    bill = _change(taken.bill_usd, held.bill_usd)
    saving = None
    if watched.best is not None and watched.best.identity != held.identity and held.cost_usd > 0:
        saving = 1.0 - watched.best.cost_usd / held.cost_usd
    findings: list[Finding] = []
    if saving is not None and saving > threshold:
        findings.append("beaten")
    if price is not None and price > threshold:
        findings.append("price_rose")
    elif bill is not None and bill > threshold:
        findings.append("costs_more")
    return replace(
        watched,
        findings=tuple(findings),
        price_change_fraction=price,
        bill_change_fraction=bill,
        saving_fraction=saving,
    )


def _change(before: float | None, after: float | None) -> float | None:
    return after / before - 1.0 if before and after is not None else None


def _compare_since(
    since: str,
    scenario: AnyScenario,
    plan: Mapping[str, Json],
    today: AnyScenario,
    answer: Answer,
    shared: SharedOptions,
) -> DocumentComparison:
    """Return the comparison of today's answer with the plan itself or with the answer of another day."""
    from advisor.ask.measures import parse_day

    now = _document(answer, today)
    if since == "plan":
        return compare_documents(plan, now)
    day = parse_day(since, "--since")
    before = today.model_copy(update={"as_of": day})
    return compare_documents(_document(_ask(before, shared), before), now)


def _document(answer: Answer, scenario: AnyScenario) -> Mapping[str, Json]:
    import json

    found: dict[str, Json] = json.loads(plan_text(answer, scenario))
    return found


def exit_code_of(plans: Sequence[WatchedPlan]) -> int:
    """Return 2 if a plan cannot be read, 7 if one has a finding, else 0."""
    findings = {finding for each in plans for finding in each.findings}
    if "unreadable" in findings:
        return 2
    return 7 if findings else 0

"""The nearest question that has an answer, for one that has none; each change is tried before it is suggested."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from advisor.catalog import accelerators as accelerator_catalog
from advisor.catalog.engines import weight_formats
from advisor.catalog.schema import Engine, Model
from advisor.decide.candidates import candidates_within
from advisor.decide.effort import CHANGE_WORK, is_spent, limit_effort
from advisor.decide.offers import sold_values
from advisor.decide.purchase import Demand, extra_usd_per_hour, least_budget, smallest_budget
from advisor.decide.ranking import judge_purchase
from advisor.decide.reason import NoKernels
from advisor.decide.scenario import Constraints, Objectives, Scenario
from advisor.decide.trial import Found

LIMITS: Final = {
    "--precision": "precisions",
    "--kv-precision": "kv_dtype",
    "--engine": "engines",
    "--gpu": "accelerators",
    "--provider": "providers",
    "--max-price-age": "max_price_age_days",
    "--max-gpus": "max_accelerators",
    "--power-budget": "power_budget_w",
    "--region": "regions",
    "--residency": "countries",
}
"""Fields of the constraints by the options that set them, the one to give up first before the others."""
_LAWS: Final = ("--region", "--residency")
"""Limits that may be law or contract for a user, as the tenancy is: they are given up after money and latency."""
_FACTORS: Final = (1.25, 1.6, 2.0, 3.0, 4.0, 6.0, 8.0, 11.0, 16.0, 32.0, 64.0, 128.0, 256.0)
"""Limits that are tried, over those of the question: an answer is at most half as long again as the shortest up to 16,
and costs four searches."""
_MOST_CONFIRMED: Final = 3
"""Factors at which a whole search is asked to confirm what short runs held. Own choice: each costs a search."""
_SMALL_FORMATS: Final = ("int4", "q4_k_m", "exl3-4.0bpw")
"""Formats that make a model small enough for hardware that is there: the first that an engine serves on it."""
_MORE: Final = (1.0, 1.25, 1.6, 2.0)
"""Budgets that are tried, over the cheapest bill that short runs hold; long runs may need a second replica."""
_CENT_USD: Final = 0.01
_RETRY_FRACTIONS: Final = (0.99, 0.9, 0.75)
"""Fractions of the unrestricted result that are tried in turn; the restricted search uses shorter runs and may find
slightly less."""
_TRICKLE_PER_S: Final = 0.01
"""Rate for which the smallest deployment is enough [requests/s]."""
_ALL_METRICS: Final = ("tpot", "itl", "ttft", "e2e")

Ask = Callable[[Scenario], Found | None]
"""Function that returns the cheapest deployment that answers a question; None if there is none."""


class ChangedQuestion(NamedTuple):
    """Question with one change, and the options that are typed for it."""

    options: str
    scenario: Scenario
    remark: str = ""
    """Words behind the options of the change; empty for none."""

    @property
    def told(self) -> str:
        """The change as it is printed."""
        return f"{self.options}: {self.remark}" if self.remark else self.options


def nearest_question(
    scenario: Scenario,
    model: Model,
    engines: tuple[Engine, ...],
    ask: Ask,
    is_answered: Callable[[Scenario], bool],
) -> str:
    """Return the options to type so that the search finds an answer; empty if no single change that was tried gives
    one, with a larger budget or without.

    `ask` searches with little work; `is_answered` as a question is searched that is typed, which may find less.

    Source: own rule; the changes in the order in which people would give way.
    """
    one = scenario.model_copy(update={"top": 1, "ladder_per_s": (), "ladder_clients": ()})
    if scenario.objectives.budget_usd_per_hour is not None:
        told = _enough(one, ask)
        if told:
            return told
    if scenario.constraints.own and scenario.traffic.rate_per_s is not None:
        told = _most_load(one, ask)
        if told:
            return told
    as_typed = {"screened_only": scenario.screened_only, "top": scenario.top}

    def find(question: Scenario) -> ChangedQuestion | None:
        for change in _changes(question, model, engines):
            if is_spent():
                return None
            able: Iterable[ChangedQuestion] = ()
            if isinstance(change, LooserLimits):
                able = _nearest_looser(change.scenario, change.choices, change.words, ask)
            elif _has_answer(change, ask):
                able = (change,)
            for each in able:
                if is_answered(each.scenario.model_copy(update=as_typed)):
                    return each
        return None

    found = find(one)
    if found is not None:
        return found.told
    if one.objectives.budget_usd_per_hour is None or is_spent():
        return ""
    free = find(one.with_objectives(budget_usd_per_hour=None))
    enough = _enough(free.scenario, ask) if free is not None else ""
    return f"{free.options}, with {enough}" if free is not None and enough else ""


def loosen_limits(scenario: Scenario, ask: Ask) -> Objectives | None:
    """Return the objectives of a question with longer latency limits at which it has an answer, by little first;
    None if no longer ones that were tried give one.

    Source: own rule; first tokens and whole outputs are given up before the time per output token.
    """
    one = scenario.model_copy(update={"top": 1, "ladder_per_s": (), "ladder_clients": ()})
    found = next(_nearest_looser(one, (("ttft", "e2e"), _ALL_METRICS), "", ask), None)
    return None if found is None else found.scenario.objectives


def _nearest_looser(
    scenario: Scenario, choices: Sequence[tuple[str, ...]], before: str, ask: Ask
) -> Iterator[ChangedQuestion]:
    """Yield the question with the shortest limits that has an answer in short runs, `before` typed before them, then
    those with the next longer ones, as long runs may miss what short ones hold; nothing without an answer.

    The last of the `choices` of metrics has the others: where a limit times a factor has no answer with it, the others
    have none. Of the others the first that has an answer at its factor is taken.
    """
    answered: dict[float, ChangedQuestion] = {}

    def has_answer(factor: float, metrics: tuple[str, ...]) -> bool:
        looser, told = _looser(scenario.objectives, metrics, factor)
        if not told or is_spent():
            return False
        longer = scenario.model_copy(update={"objectives": looser, "screened_only": True})
        change = ChangedQuestion(f"{before}{told}", longer, "the nearest that was tried")
        if _has_answer(change, ask):
            answered[factor] = change
        return answered.get(factor) is change

    if not has_answer(_FACTORS[-1], choices[-1]):
        return
    bisect_left(_FACTORS, True, hi=len(_FACTORS) - 1, key=lambda factor: has_answer(factor, choices[-1]))
    for factor in _FACTORS[_FACTORS.index(min(answered)) :][:_MOST_CONFIRMED]:
        next((metrics for metrics in choices[:-1] if has_answer(factor, metrics)), None)
        if factor in answered or has_answer(factor, choices[-1]):
            yield answered[factor]


def _has_answer(change: ChangedQuestion, ask: Ask) -> bool:
    with limit_effort(CHANGE_WORK):
        return ask(change.scenario) is not None


class LooserLimits(NamedTuple):
    """Question whose latency limits are lengthened, by choices of metrics, and the words that are typed before them."""

    words: str
    scenario: Scenario
    choices: Sequence[tuple[str, ...]]


def _changes(
    scenario: Scenario, model: Model, engines: tuple[Engine, ...]
) -> Iterator[ChangedQuestion | LooserLimits]:
    """Yield questions with one change each."""
    limits = scenario.constraints
    can_shrink = limits.own and not limits.precisions
    fewest = _small_format(limits, engines) if can_shrink else ""
    smaller = scenario.with_limits(precisions=(fewest,)) if fewest else None
    if smaller is not None:  # quality and latency are given up before hardware is bought
        yield ChangedQuestion(f"--precision {fewest}", smaller)
    looser = LooserLimits("", scenario, (("tpot", "itl"), ("ttft", "e2e"), _ALL_METRICS))
    if limits.own:
        if _is_held(scenario, model, engines):
            yield looser
        if smaller is not None and _is_held(smaller, model, engines):
            yield LooserLimits(f"--precision {fewest} ", smaller, (("ttft", "e2e"), _ALL_METRICS))
        larger = [(need, "", scenario) for need in _needed_accelerators(scenario, model, engines)]
        if smaller is not None:
            format_option = f" --precision {fewest}"
            larger += [
                (need, format_option, smaller) for need in _needed_accelerators(smaller, model, engines)
            ]
        for (count, name), option, question in sorted(larger, key=lambda each: each[0][0]):
            more = question.with_limits(own=((count, name),))
            yield ChangedQuestion(f"--own {count}x{name}{option}", more, "one replica takes that many")
    if limits.most_rented:
        kinds = ",".join(limits.accelerators)
        yield ChangedQuestion(f"--gpu {kinds}", scenario.with_limits(most_rented=()))
    for served in _served_formats(scenario, model, engines):
        narrower = scenario.with_limits(precisions=(served,))
        yield ChangedQuestion(f"--precision {served}", narrower)
        yield LooserLimits(f"--precision {served} ", narrower, (("ttft", "e2e"), _ALL_METRICS))
    if not limits.own:
        yield from _wider(scenario, "--term", "terms")
    yield from _without_limit(scenario, are_laws=False)
    if not limits.own:
        yield looser
        yield from _wider(scenario, "--tenancy", "tenancies")
    yield from _without_limit(scenario, are_laws=True)
    if limits.own:  # what is there is given up last
        if limits.engines:
            other = scenario.with_limits(engines=Constraints.model_fields["engines"].get_default())
            yield LooserLimits("drop --engine, with ", other, (("ttft", "e2e"), _ALL_METRICS))
        free = scenario.with_limits(own=Constraints.model_fields["own"].get_default())
        yield ChangedQuestion("drop --own", free)


def _wider(
    scenario: Scenario, option: str, field: Literal["terms", "tenancies"]
) -> Iterator[ChangedQuestion]:
    """Yield the question with all values of a limit at which something is for sale, where it lacks one: on demand alone
    before terms that bind."""
    limits = scenario.constraints
    sold = sold_values(limits, scenario.as_of, field)
    usual = tuple(value for value in sold if value in Constraints.model_fields[field].get_default())
    for values in dict.fromkeys((usual, sold)):
        if values and not set(values) <= set(getattr(limits, field)):
            typed = ",".join(value.replace("_", "-") for value in values)
            yield ChangedQuestion(f"{option} {typed}", scenario.with_limits(**{field: values}))


def _without_limit(scenario: Scenario, *, are_laws: bool) -> Iterator[ChangedQuestion]:
    """Yield the question without one of its limits each: those that may be law for the user, or the others."""
    for option, field in stated_limits(scenario.constraints):
        if (option in _LAWS) is are_laws:
            usual = Constraints.model_fields[field].get_default()
            yield ChangedQuestion(f"drop {option}", scenario.with_limits(**{field: usual}))


def stated_limits(limits: Constraints) -> Iterator[tuple[str, str]]:
    """Yield the options of the limits that a question states, with the fields of its constraints."""
    for option, field in LIMITS.items():
        if getattr(limits, field) != Constraints.model_fields[field].get_default():
            yield option, field


def _has_load(scenario: Scenario) -> bool:
    return scenario.traffic.rate_per_s is not None or scenario.traffic.concurrency is not None


def _with_rate(scenario: Scenario, rate_per_s: float | None) -> Scenario:
    return scenario.with_traffic(rate_per_s=rate_per_s, concurrency=None)


def _enough(scenario: Scenario, ask: Ask) -> str:
    """Return the least budget that buys a deployment, as it is typed; empty where money is not what lacks.

    The cheapest deployment without a budget comes first. A search with its bill as the budget may find none, since it
    stops at shorter runs; then a little more is tried. What that buys may not be the cheapest bill, since deployments
    are compared by expected prices: less is asked about until nothing is found.
    """
    free = scenario.with_objectives(budget_usd_per_hour=None)
    found = ask(free if _has_load(scenario) else _with_rate(free, _TRICKLE_PER_S))
    if found is None:
        return ""
    bought = list[Found]()

    def ask_within(usd_per_hour: float) -> float | None:
        answer = ask(scenario.with_objectives(budget_usd_per_hour=usd_per_hour))
        if answer is None:
            return None
        bought.append(answer)
        return _bill_usd_per_hour(scenario, answer)

    least = _bill_usd_per_hour(scenario, found)
    for factor in _MORE:
        if (bill := ask_within(factor * least + _CENT_USD)) is not None:
            usd_per_hour = least_budget(bill, ask_within)
            placement = bought[-1].purchase.placement
            count = bought[-1].purchase.num_units * placement.accelerators_per_unit
            return smallest_budget(usd_per_hour, count, bought[-1].accelerator_id, placement.price.provider)
    return ""


def _bill_usd_per_hour(scenario: Scenario, found: Found) -> float:
    """Return what a budget pays of a deployment: machines, storage and egress [USD/h]."""
    bought = found.purchase
    return bought.usd_per_hour + extra_usd_per_hour(bought.placement.price, scenario.beside)


def _small_format(limits: Constraints, engines: tuple[Engine, ...]) -> str:
    """Return a format of four bits that the engines serve on the hardware that is there; empty if they serve none."""
    served = {
        dtype
        for _, name in limits.own
        for engine in engines
        for dtype in weight_formats(engine, accelerator_catalog.by_id(name))
    }
    return next((dtype for dtype in _SMALL_FORMATS if dtype in served), "")


def _most_load(scenario: Scenario, ask: Ask) -> str:
    """Return the request rate that the owned hardware carries, all kinds together or one alone, as options to type;
    empty if it serves no request."""
    alone = [ask(_with_rate(scenario.with_limits(own=(kind,)), None)) for kind in scenario.constraints.own]
    rates = [found.purchase.requests_per_s for found in alone if found is not None]
    for carried in dict.fromkeys((sum(rates), max(rates))) if rates else ():
        for part in _RETRY_FRACTIONS:
            rate = float(f"{part * carried:.3g}")
            asked = _with_rate(scenario, rate)
            if (found := ask(asked)) is not None:
                is_likely = judge_purchase(asked, Demand("rate", rate), found).holds == "likely"
                how = "" if is_likely else ", though only marginally: it may miss the objectives"
                return f"--rate {rate:g}, which was found to be carried by what is there{how}"
    return ""


def _served_formats(scenario: Scenario, model: Model, engines: tuple[Engine, ...]) -> Iterator[str]:
    """Yield the weight formats that the named engines serve on the named accelerators, where they serve none of those
    that were asked for."""
    limits = scenario.constraints
    if not limits.engines:
        return
    names = [name for _, name in limits.own] or limits.accelerators
    found = (candidates_within(scenario, accelerator_catalog.by_id(name), model, engines) for name in names)
    yield from dict.fromkeys(why.nearest for _, why in found if isinstance(why, NoKernels) and why.nearest)


def _is_held(scenario: Scenario, model: Model, engines: tuple[Engine, ...]) -> bool:
    """Whether owned accelerators of one kind may hold a replica, so that longer limits may help; true of several kinds,
    which may hold one together."""
    owned = scenario.constraints.own
    if len(owned) != 1:
        return True
    count, name = owned[0]
    found, _ = candidates_within(scenario, accelerator_catalog.by_id(name), model, engines)
    return any(each.deployment.accelerators_per_replica <= count for each in found)


def _needed_accelerators(
    scenario: Scenario, model: Model, engines: tuple[Engine, ...]
) -> Iterator[tuple[int, str]]:
    """Yield the accelerators that one replica takes and their id, for each owned kind with fewer accelerators than
    that."""
    for count, name in scenario.constraints.own:
        found, _ = candidates_within(scenario, accelerator_catalog.by_id(name), model, engines)
        sizes = {each.deployment.accelerators_per_replica for each in found}
        yield from ((size, name) for size in sorted(sizes) if size > count)


def _type_duration(seconds: float) -> str:
    return f"{seconds:g}s" if seconds >= 1.0 else f"{1000 * seconds:g}ms"


def _looser(objectives: Objectives, metrics: tuple[str, ...], factor: float) -> tuple[Objectives, str]:
    """Objectives with the limits of some metrics that many times as long, and how they are typed."""
    told = [
        f"--{level.metric}-p{level.percent} {_type_duration(factor * level.limit_s)}"
        for level in objectives.levels
        if level.metric in metrics
    ]
    fields = {
        f"{name}_p99_s": factor * limit
        for name in ("ttft", "tpot")
        if name in metrics and (limit := getattr(objectives, f"{name}_p99_s")) is not None
    }
    others = tuple(
        each.model_copy(update={"limit_s": factor * each.limit_s}) if each.metric in metrics else each
        for each in objectives.others
    )
    return objectives.model_copy(update={**fields, "others": others}), " ".join(told)

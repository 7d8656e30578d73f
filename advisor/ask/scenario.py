"""Conversion of typed traffic, objectives and limits into a frozen scenario."""

import math
import re
from difflib import get_close_matches
from typing import Final, Literal, cast, get_args

from advisor.ask.measures import parse_budget, parse_seconds, parse_watts
from advisor.ask.names import names_of, release_notes, releases_of
from advisor.ask.options import LoadOptions, SharedOptions, Where, today
from advisor.ask.options import ObjectiveOptions as TypedObjectives
from advisor.ask.own_data import given_calibration, kept_prices, kept_prices_note
from advisor.ask.texts import listed_machine
from advisor.ask.topology import count_accelerators
from advisor.ask.traffic import traffic_of
from advisor.catalog import accelerators, engines, models
from advisor.catalog.dtypes import known_cache, known_dtype
from advisor.catalog.errors import AdvisorError
from advisor.catalog.formats.machine_listing import ListedMachine, nodes_in
from advisor.catalog.ownership import ownership
from advisor.catalog.prices import bundled_prices, catalogue_notes
from advisor.catalog.regions import all_regions, regions_of_places
from advisor.catalog.resolve import known_value
from advisor.catalog.schema.price import Tenancy, Term
from advisor.catalog.units import KILO
from advisor.decide.offers import COUNTRY_LETTERS, count_within_power
from advisor.decide.scenario import Constraints, Metric, Objectives, Scenario, ServiceLevel
from advisor.simulator.layout import check_generates

_LEVELS: Final[tuple[tuple[Metric, Literal[50, 95, 99]], ...]] = (
    ("ttft", 95),
    ("ttft", 50),
    ("tpot", 95),
    ("tpot", 50),
    ("itl", 99),
    ("e2e", 99),
)
DEFAULT_TTFT_P99: Final = "2s"
DEFAULT_TPOT_P99: Final = "100ms"
LADDER_PER_S: Final = (0.2, 1.0, 10.0, 50.0, 200.0)


MODEL_OF_WORK: Final = {
    "embed": "bge-m3",
    "rerank": "bge-m3",
    "speech": "whisper",
    "diffusion": "flux",
    "vision": "qwen2.5-vl-7b",
}
"""Model that an error names as an example, for work that a model of text does not do."""


def needed_model(model: str | None, workload: str = "") -> str:
    """Return the model that was named.

    Raises: AdvisorError: none was; the fix names one that does the work.
    """
    if model is None:
        example = MODEL_OF_WORK.get(workload, "70b")
        raise AdvisorError(
            "no model is named", why="--model is missing", fix=f"--model {example}, an id, or a config.json"
        )
    return model


def refuse_goal(objectives: TypedObjectives, workload: str) -> None:
    """Refuse weights of a goal for work other than serving.

    Raises: AdvisorError: --goal with a workload other than serving.
    """
    if objectives.goal is not None:
        raise AdvisorError(
            f"--goal is for serving, not for --workload {workload}",
            why="it compares families of hardware by what serving a model costs on them",
            fix="drop --goal, or say what is to be trained under [needs] in its file and keep --workload serve",
        )


def parse_own(text: str) -> ListedMachine:
    """Return hardware that is already there: written 8xh100-sxm or 2xl40s,4xa100, or listed by a program.

    Raises: AdvisorError: it is written otherwise. UnknownNameError: no such accelerator. InputFileError: a listing
        names no accelerator.
    """
    if (listed := listed_machine(text, "--own")) is not None:
        return listed
    nodes, text, assumed = nodes_in(text)
    text, alternatives = _EITHER.subn(",", text)
    own: list[tuple[int, str]] = []
    notes = list(assumed)
    for part in names_of(text, "--own"):
        number, chosen = count_accelerators(part)
        id_ = chosen.record.id
        if accelerators.other_memories(chosen.record):
            notes.append(chosen.note)
        if number is None:
            notes.append(f"--own {part} is taken as 1x{id_}")
        if number == 0:
            raise AdvisorError(f"--own {part}: none of them", fix=f"--own 1x{id_}, or no --own")
        own.append((nodes * (1 if number is None else number), id_))
    return ListedMachine(tuple(own), tuple(filter(None, notes)), are_alternatives=bool(alternatives))


_EITHER: Final = re.compile(r",?\s+or\s+", re.IGNORECASE)
"""Word between machines of which one is taken."""


def _named_accelerators(
    text: str | None,
) -> tuple[tuple[str, ...], tuple[tuple[int, str], ...], tuple[str, ...]]:
    """Return the accelerators that may be rented, the most of each kind where they are counted, and notes.

    Raises: AdvisorError: none of a kind is asked for. UnknownNameError: no such accelerator.
    """
    ids: list[str] = []
    most: list[tuple[int, str]] = []
    notes: list[str] = []
    for name in names_of(text, "--gpu"):
        if (family := accelerators.of_family(name)) and accelerators.find(name) is None:
            sold = {price.accelerator for price in bundled_prices()}
            rented = [id_ for id_ in family if id_ in sold] or [*family]
            ids += rented
            notes.append(f"accelerator '{name}' is taken as {', '.join(rented)}")
            continue
        number, chosen = count_accelerators(name)
        id_ = chosen.record.id
        ids.append(id_)
        if number is None or accelerators.other_memories(chosen.record):
            notes.append(chosen.note)
        if number is None:
            continue
        if number == 0:
            raise AdvisorError(f"--gpu {name}: none of them", fix=f"--gpu {id_}, or no --gpu")
        most.append((number, id_))
    if most:
        limits = ", ".join(f"{number} x {id_}" for number, id_ in most)
        own = ",".join(f"{number}x{id_}" for number, id_ in most)
        notes.append(f"at most {limits} are rented; --own {own} plans what you have")
    return tuple(ids), tuple(most), tuple(notes)


def _regions(text: str | None) -> tuple[str, ...]:
    """Return prefixes of names of regions and countries in lower case; for a place that people name, its regions, also
    where names of other regions begin so: `europe` is more than the regions of the one seller who writes it.

    Raises: AdvisorError: no offer of the catalog is in a given region, and the table has no such place.
    """
    wanted = tuple(name.lower() for name in names_of(text, "--region"))
    known = {place.lower() for price in bundled_prices() for place in (price.region, price.country) if place}
    found: list[str] = []
    for name in wanted:
        if (place := all_regions().get(name)) is not None:
            found += (name, *(alias.lower() for alias in place.aliases))
            continue
        if name not in known and (places := regions_of_places().get(name)) is not None:
            found += places
            continue
        # Two letters are a country or end at a hyphen, as offers compare them: uk is no beginning of uksouth.
        start = name if len(name) > COUNTRY_LETTERS else f"{name}-"
        if name not in known and not any(each.startswith(start) for each in known):
            near = get_close_matches(
                name, sorted(known | all_regions().keys() | regions_of_places().keys()), 3
            )
            raise AdvisorError(
                f"no seller has a region {name!r}",
                fix="a country such as de, a place such as mumbai, or how a region's name begins, such as us-east",
                hint=f"did you mean {', '.join(near)}?" if near else "",
            )
        found.append(name)
    return tuple(found)


def _countries(text: str | None) -> tuple[str, ...]:
    """Return ISO codes of the countries that a residency allows.

    Raises: AdvisorError: a name is no code.
    """
    found: list[str] = []
    for name in names_of(text, "--residency"):
        code = name.upper()
        if code not in ("EU", *known_countries()):
            raise AdvisorError(
                f"--residency {name}: no country of that code where a seller is known",
                fix=f"--residency eu, or codes of countries: {', '.join(sorted(known_countries())).lower()}",
            )
        found += map(str.upper, regions_of_places()["eu"]) if code == "EU" else (code,)
    return tuple(found)


def known_countries() -> frozenset[str]:
    """Return the countries in which the catalog knows an offer."""
    return frozenset(price.country for price in bundled_prices() if price.country)


def constraints_of(where: Where) -> tuple[Constraints, tuple[str, ...]]:
    """Return the constraints, ids resolved, and notes on what was understood.

    Raises: AdvisorError: a value is malformed. UnknownNameError: a name is in no record.
    """
    chosen, most_rented, gpu_notes = _named_accelerators(where.gpu)
    served = [engines.get(engines.split_release(name)[0]) for name in names_of(where.engine, "--engine")]
    formats = [known_dtype(name) for name in names_of(where.precision, "--precision")]
    cache, cache_note = known_cache(None if where.kv_precision == "auto" else where.kv_precision)
    terms = tuple(name.replace("-", "_") for name in names_of(where.term, "--term"))
    for term in terms:
        known_value(term, get_args(Term), "term")
    for tenancy in (tenancies := names_of(where.tenancy, "--tenancy")):
        known_value(tenancy, get_args(Tenancy), "tenancy")
    own = parse_own(where.own) if where.own else ListedMachine(())
    constraints = Constraints(
        accelerators=chosen,
        most_rented=most_rented,
        providers=names_of(where.provider, "--provider"),
        engines=tuple(choice.record.id for choice in served),
        engine_releases=releases_of(where.engine),
        precisions=tuple(name for name, _ in formats if name),
        kv_dtype=cache or "",
        terms=terms,
        own=own.counts,
        own_are_alternatives=own.are_alternatives,
        tenancies=cast(tuple[Tenancy, ...], tenancies),
        regions=_regions(where.region),
        countries=_countries(where.residency),
        max_price_age_days=where.max_price_age,
        power_budget_w=parse_watts(where.power_budget, "--power-budget") if where.power_budget else None,
        max_accelerators=where.max_gpus,
        price_file=where.price_file,
        price_cache=kept_prices(),
    )
    notes = [*gpu_notes, *(choice.note for choice in served)]
    notes += [note for _, note in formats] + [cache_note, kept_prices_note(), *own.notes]
    notes += _unfed_notes(constraints)
    if where.price_file is not None and where.price_file.is_file():
        notes += catalogue_notes(where.price_file, today(), constraints.providers or None)
    return constraints, tuple(filter(None, notes))


def _unfed_notes(constraints: Constraints) -> list[str]:
    """Return notes on the accelerators of one's own that a power budget does not feed, and on one that feeds all."""
    limit_w = constraints.power_budget_w
    notes = []
    for count, id_ in constraints.own if limit_w is not None else ():
        chip = accelerators.by_id(id_)
        fed = count_within_power(limit_w, count, chip, today())
        if limit_w is None or not 0 < fed < count:
            continue
        all_kw = ownership(today()).system_power_w(chip.tdp_w or 0.0) * count / KILO
        notes.append(
            f"{limit_w / KILO:g} kW feed {fed} of {count} x {id_} with their hosts at full power; "
            f"--power-budget {math.ceil(10.0 * all_kw) / 10.0:g}kW feeds all"
        )
    return notes


def objectives_of(typed: TypedObjectives) -> Objectives:
    """Return the objectives and the budget. A limit on TTFT or E2E replaces the default limit on TTFT; a limit on TPOT
    or ITL replaces the default limit on TPOT.

    Raises: AdvisorError: a time or the budget is malformed.
    """
    levels = []
    for metric, percent in _LEVELS:
        text = getattr(typed, f"{metric}_p{percent}")
        if text is not None:
            limit_s = parse_seconds(text, f"--{metric}-p{percent}")
            levels.append(ServiceLevel(metric=metric, percent=percent, limit_s=limit_s))
    given = {level.metric for level in levels}
    ttft = typed.ttft_p99 or (None if given & {"ttft", "e2e"} else DEFAULT_TTFT_P99)
    tpot = typed.tpot_p99 or (None if given & {"tpot", "itl", "e2e"} else DEFAULT_TPOT_P99)
    return Objectives(
        ttft_p99_s=None if ttft is None else parse_seconds(ttft, "--ttft-p99"),
        tpot_p99_s=None if tpot is None else parse_seconds(tpot, "--tpot-p99"),
        others=tuple(levels),
        budget_usd_per_hour=None if typed.budget is None else parse_budget(typed.budget),
    )


def has_levels(typed: TypedObjectives) -> bool:
    """Whether a limit of latency is typed; without one the usual limits hold."""
    names = ("ttft_p99", "tpot_p99", *(f"{metric}_p{percent}" for metric, percent in _LEVELS))
    return any(getattr(typed, name) is not None for name in names)


def scenario_of(
    model: str,
    load: LoadOptions,
    objectives: TypedObjectives,
    where: Where,
    top: int,
    shared: SharedOptions,
    *,
    ladder: bool = False,
) -> tuple[Scenario, tuple[str, ...]]:
    """Return the whole question and notes on what was understood; with `ladder`, no load means several loads.

    Raises: AdvisorError and its kinds: something typed is malformed, unknown or out of range.
    """
    found = models.get(model)
    check_generates(found.record)
    constraints, notes = constraints_of(where)
    notes = (*notes, *release_notes(found.record, where.engine))
    traffic = traffic_of(load)
    goals = objectives_of(objectives)
    asks_ladder = (
        traffic.rate_per_s is None
        and traffic.concurrency is None
        and goals.budget_usd_per_hour is None
        and not constraints.own
        and not constraints.most_rented
    )
    scenario = Scenario(
        model=models.reference(model, found.record),
        traffic=traffic,
        objectives=goals,
        constraints=constraints,
        as_of=shared.as_of,
        seed=shared.seed,
        calibration=given_calibration(shared.calibration),
        ladder_per_s=LADDER_PER_S if ladder and asks_ladder else (),
        headroom_fraction=objectives.headroom,
        redundancy=objectives.redundancy,
        top=top,
    )
    if load.trace is not None:
        notes = (*notes, _trace_note(load))
    return scenario, tuple(filter(None, (found.note, *notes)))


def _trace_note(load: LoadOptions) -> str:
    """Return a note on the parts of a trace that count."""
    if load.concurrency is not None:
        return f"of {load.trace}, lengths count; clients do not follow its instants"
    return (
        f"of {load.trace}, lengths and mean rate count in the screen; the deployments that are shown have replayed it, "
        "each replica its share, of a long one parts of all its hours"
    )

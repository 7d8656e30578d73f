"""Conversion of typed levers, adapters and costs besides machines into the inputs of the search."""

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from advisor.ask.measures import MOST_TOKENS, parse_clients, parse_rate, parse_tokens, parse_watts
from advisor.ask.names import loads_of, names_of
from advisor.ask.options import ExtraOptions as TypedBeside
from advisor.ask.options import Levers, LoadOptions
from advisor.catalog import models
from advisor.catalog.errors import AdvisorError, InputFileError, UnknownNameError
from advisor.catalog.files import read_json
from advisor.catalog.legible import Line
from advisor.catalog.resolve import near_misses
from advisor.catalog.schema import Model
from advisor.catalog.units import TB
from advisor.decide.levers import APART, BY_LENGTH, LEVERS, NAMES
from advisor.decide.power import NAME as POWER
from advisor.decide.scenario import AdapterLoad, ExtraItems, Scenario
from advisor.decide.split import boundaries
from advisor.simulator.workloads.lora import MOST_SLOTS, USUAL_RANK

_PLAIN: Final = tuple(name for name, lever in LEVERS.items() if lever.kind != "speculation")
_CONFIG: Final = "adapter_config.json"
_MOST_CONFIGS: Final = 10_000
"""Largest number of adapters that are read from a folder: 5,000 take 5 s of a processor."""
_MOST_CONFIG_BYTES: Final = 100_000
"""Largest configuration of one adapter [bytes]; peft writes about one kilobyte."""
_LEFT_BEHIND: Final = {
    BY_LENGTH.name: "a conversation that grows past the boundary would leave its cache with the short ones",
    APART.name: "what an answer leaves in the cache stays with its decode worker, prompts need it elsewhere",
}
"""Why turns do not find what was said before."""


def with_levers(
    scenario: Scenario, typed: Levers, *, parts: str = "", no_limit: str | None = None
) -> Scenario:
    """Return the scenario with the levers that may be applied, and the adapters that requests use.

    `parts`: what else takes levers that make unlike parts, where the command does not; `no_limit`: why boards are not
    held to less power; without it those of machines that are there already are.

    Raises: AdvisorError and its kinds: a name is not known or not searched, says nothing about this load, or adapters
        are of another model.
    """
    names = _names(typed.levers)
    guessing = set(names).difference(("auto", "none", *_PLAIN))
    if "prefix" in names and not scenario.traffic.reused_input_tokens:
        raise _no_reuse(scenario)
    if typed.acceptance is not None and not guessing:
        raise AdvisorError("--acceptance needs a way of guessing ahead", fix="--levers eagle, or drop it")
    fleets = [name for name in names if name in LEVERS and LEVERS[name].kind == "fleet"]
    if fleets and parts:
        raise AdvisorError(f"--levers {fleets[0]} does not act here", why=parts, fix="--levers auto")
    for name in fleets:
        _check_fleet(name, scenario, typed)
    limits = [name for name in names if name.partition(":")[0] == POWER]
    if no_limit is None:
        no_limit = "" if scenario.constraints.own else "who rents a board may seldom set its power limit"
    if limits and no_limit:
        own = "--own 8xh100-sxm for boards of your own, or --levers auto"
        raise AdvisorError(f"--levers {limits[0]} does not act here", why=no_limit, fix=own)
    if limits and fleets:
        raise AdvisorError(
            f"--levers {fleets[0]} and {limits[0]} exclude each other",
            why="unlike parts are bought at rated power",
            fix=f"--levers {limits[0]}",
        )
    found = scenario.model_copy(update={"levers": names, "acceptance": typed.acceptance})
    if typed.adapters is None:
        if typed.adapter_rank is not None or typed.adapter_slots is not None:
            raise AdvisorError("--adapter-rank and --adapter-slots need adapters", fix="--adapters 50")
        return found
    return found.model_copy(update={"adapters": _adapters(typed, scenario.model)})


def beside_of(typed: TypedBeside) -> ExtraItems:
    """Return the storage and egress that are paid for in addition to machines."""
    return ExtraItems(
        storage_bytes=None if typed.storage_tb is None else typed.storage_tb * TB,
        egress_bytes_per_month=None if typed.egress_tb is None else typed.egress_tb * TB,
    )


_MOST_RUNGS: Final = 8


def largest_of(load: LoadOptions) -> tuple[LoadOptions, dict[str, tuple[float, ...]]]:
    """Return the largest of several given loads, and all of them as fields of a scenario; no fields for a single load.

    Raises: AdvisorError: one is no load, or there are too many.
    """
    rates = loads_of(load.rate, "--rate")
    clients = loads_of(load.concurrency, "--concurrency")
    if max(len(rates), len(clients)) > _MOST_RUNGS:
        raise AdvisorError(
            f"more than {_MOST_RUNGS} loads are compared", fix=f"at most {_MOST_RUNGS} of them"
        )
    if len(rates) > 1:
        each = {parse_rate(rate): rate for rate in rates}
        return replace(load, rate=each[max(each)]), {"ladder_per_s": tuple(sorted(each))}
    if len(clients) > 1:
        numbers = sorted({parse_clients(number) for number in clients})
        return replace(load, concurrency=str(numbers[-1])), {"ladder_clients": tuple(numbers)}
    return replace(load, rate=next(iter(rates), None), concurrency=next(iter(clients), None)), {}


def with_ladder(
    scenario: Scenario, ladder: dict[str, tuple[float, ...]], max_context: str | None
) -> Scenario:
    """Return the scenario with the loads that each get an answer; the options are those of the largest.

    Raises: AdvisorError: context windows are to be compared too.
    """
    if not ladder:
        return scenario
    if max_context is not None:
        raise AdvisorError("--max-context compares windows at one load", fix="give one load, or drop it")
    return scenario.with_traffic(rate_per_s=None).model_copy(update=ladder)


_MOST_CONTEXTS: Final = 6
_USUAL_RATE_PER_S: Final = 1.0
"""Request rate at which context windows are compared if no load is given [1/s]."""


def with_contexts(scenario: Scenario, text: str | None) -> tuple[Scenario, tuple[str, ...]]:
    """Return the scenario with the context windows that each get an answer, and a note on the load if none is given.

    Raises: AdvisorError: one is no number of tokens, or there are too many.
    """
    names = names_of(text, "--max-context")
    found = {parse_tokens(name, "--max-context") for name in names}
    if not found:
        return scenario, ()
    if len(found) > _MOST_CONTEXTS or not 2 <= min(found) <= max(found) <= MOST_TOKENS:
        raise AdvisorError(
            f"--max-context {text}: at most {_MOST_CONTEXTS} windows of 2 to {MOST_TOKENS:,} tokens",
            fix="e.g. --max-context 64k,256k,1M",
        )
    windows: dict[str, object] = {"max_contexts": tuple(sorted(found))}
    if not scenario.ladder_per_s:
        return scenario.model_copy(update=windows), ()
    asked = scenario.with_traffic(rate_per_s=_USUAL_RATE_PER_S)
    note = f"no load is given: each window is priced at {_USUAL_RATE_PER_S:g} request/s (--rate)"
    return asked.model_copy(update={**windows, "ladder_per_s": ()}), (note,)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(_watts(name) for name in names_of(text, "--levers"))
    if len(names) > 1 and {"auto", "none"} & set(names):
        raise AdvisorError(f"--levers {text}: auto and none stand alone", fix="--levers auto, or names alone")
    for name in names:
        if name in ("auto", "none", "speculation", *LEVERS):
            continue
        kind, _, draft = name.partition(":")
        if kind == POWER:
            continue
        if kind == "draft" and draft:
            models.get(draft)
            continue
        near = near_misses(name, [*LEVERS, "speculation", "auto", "none"], {})
        raise UnknownNameError(
            f"unknown lever '{name}'",
            why=f"there are none, auto, {', '.join(NAMES)}",
            fix=f"--levers {near[0] if near else 'auto'}",
        )
    return names


def _watts(name: str) -> str:
    """Return the name of a lever; of a power limit its watts as a number, or its share of rated power.

    Raises: AdvisorError: it is neither.
    """
    kind, colon, text = name.partition(":")
    if kind not in (POWER, "power") or not (colon or kind == "power"):
        return name
    if not colon:
        return POWER
    share = text.removesuffix("%")
    if share == text:
        watts = parse_watts(text, f"--levers {POWER}")
        return f"{POWER}:{watts:g}W"
    if not share.replace(".", "", 1).isdecimal() or not 0 < float(share) < 100:
        raise AdvisorError(
            f"--levers {name}: not a share of rated power", fix=f"--levers {POWER}:80%, or {POWER}:300W"
        )
    return f"{POWER}:{share}%"


def _check_fleet(name: str, scenario: Scenario, typed: Levers) -> None:
    """Refuse unlike parts without a load to size them for, or with options that are not simulated with them.

    Raises: AdvisorError: the load is missing, an option excludes unlike parts, or no length parts the prompts.
    """
    if scenario.traffic.rate_per_s is None:
        raise AdvisorError(
            f"--levers {name} needs a load, and only one, to be sized for",
            why="how many of each part are needed depends on it",
            fix=f"--rate 10 --levers {name}",
        )
    if typed.adapters is not None and name != BY_LENGTH.name:
        raise AdvisorError(
            f"--levers {name} and --adapters exclude each other",
            why="no engine is known to send caches of adapters from worker to worker",
            fix=f"drop --adapters, or --levers {BY_LENGTH.name}, or drop --levers {name}",
        )
    if scenario.screened_only:
        raise AdvisorError(
            f"--levers {name} and --fast exclude each other",
            why="its parts are sized by the runs that --fast leaves out",
            fix="drop --fast",
        )
    if scenario.traffic.conversations is not None:
        raise AdvisorError(
            f"--levers {name} and --sessions exclude each other",
            why=_LEFT_BEHIND[name],
            fix="--levers prefix, or a --trace with hash_ids instead of --sessions, or drop --sessions",
        )
    if name == BY_LENGTH.name and not boundaries(scenario.traffic):
        raise AdvisorError(
            f"--levers {name} finds no length at which to part the prompts",
            why="they are too much alike, or too few",
            fix="--profile agent, a longer --trace, or --levers auto",
        )


def _no_reuse(scenario: Scenario) -> AdvisorError:
    trace = scenario.traffic.trace
    if trace is not None and scenario.traffic.concurrency is not None:
        return AdvisorError(
            "--levers prefix: clients draw lengths from a trace, not what its prompts have in common",
            why="--concurrency replaces its instants and its order",
            fix="drop --concurrency, or --input-tokens with --shared-prefix-tokens N instead of --trace",
        )
    what = f"{trace} has no hash_ids, or none comes twice" if trace else "prompts have nothing in common"
    return AdvisorError(
        f"--levers prefix: {what}",
        why="only what an earlier prompt began with can be reused",
        fix="a trace with hash_ids, or --shared-prefix-tokens N with --input-tokens",
    )


def _adapters(typed: Levers, model: str) -> AdapterLoad:
    text = typed.adapters or ""
    rank = USUAL_RANK
    paths: tuple[tuple[str, str], ...] = ()
    if text.isdecimal():
        count = int(text)
    else:
        paths, rank = _folder(Path(text), model)
        count = len(paths)
    if not 1 <= count <= 1_000_000:
        raise AdvisorError(f"--adapters {text}: from 1 to 1,000,000", fix="--adapters 50")
    slots = typed.adapter_slots or min(count, MOST_SLOTS)
    return AdapterLoad(count=count, rank=typed.adapter_rank or rank, slots=min(slots, count), paths=paths)


def _folder(folder: Path, model: str) -> tuple[tuple[tuple[str, str], ...], int]:
    """Return the names and paths of the adapters in a folder, and their largest rank.

    Raises: InputFileError: there is no adapter, or one of another base.
    """
    found = folder.glob(f"**/{_CONFIG}") if folder.is_dir() else iter(())
    files = sorted(islice(found, _MOST_CONFIGS + 1))
    if len(files) > _MOST_CONFIGS:
        raise InputFileError(
            f"--adapters {folder}: holds more than {_MOST_CONFIGS:,} adapters",
            why="each of them is read, and its path enters the command",
            fix="give their number instead: --adapters 20000 --adapter-rank 16",
        )
    if not files:
        raise InputFileError(
            f"--adapters {folder}: neither a number nor a folder with adapters",
            why=f"an adapter has a file {_CONFIG}",
            fix="--adapters 50 --adapter-rank 16",
        )
    ranks = []
    for file in files:
        content = read_json(file, f"name a folder of adapters, each with its {_CONFIG}", _MOST_CONFIG_BYTES)
        rank = content.get("r") if isinstance(content, dict) else None
        if not isinstance(content, dict) or not isinstance(rank, int) or rank < 1:
            raise InputFileError(f"{file}: r is no rank", fix='"r": 16, as peft writes it')
        base = content.get("base_model_name_or_path")
        known = models.by_hf_id(base) if isinstance(base, str) else None
        if known is not None and not _is_base(known, model):
            raise InputFileError(
                f"{file}: an adapter of {known.id}, not of {model}",
                why="an adapter only fits the model on which it was trained",
                fix=f"--model {known.id}, or a folder without it",
            )
        ranks.append(rank)
    return tuple(_name_and_path(file.parent, folder) for file in files), max(ranks)


def _is_base(base: Model, model: str) -> bool:
    """Whether a typed model, under any of its names, is the base of an adapter: the record itself, or a checkpoint of
    the user's with exactly its layers."""
    typed = models.get(model).record
    return typed.id == base.id or (typed.layers == base.layers and typed.hidden_size == base.hidden_size)


def _name_and_path(adapter: Path, folder: Path) -> tuple[str, str]:
    """Return the name by which requests ask for an adapter, and its path."""
    inside = adapter.relative_to(folder)
    name = "-".join(inside.parts) or adapter.resolve().name
    return name.replace("=", "-"), str(Line(adapter.resolve(), "the path of an adapter"))

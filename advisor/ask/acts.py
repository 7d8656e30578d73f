"""Kinds of work for which each option acts, as declared with the option and read by help, refusals and tests.

`acts(...)` stands in the annotation of an option next to its help: `Annotated[str | None, LIMITS(...), acts(...)]`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

from advisor.ask.inputs import choices_of, given_options, given_value, parameters_of
from advisor.catalog.errors import AdvisorError
from advisor.catalog.resolve import choice_of

Work = Literal[
    "serve", "train", "finetune", "distill", "rl", "diffusion", "embed", "rerank", "speech", "vision", "batch"
]
TRAINING: Final = ("train", "finetune", "rl")
ALL: Final = " ".join(get_args(Work))
CHAT: Final = "serve vision"
ITEMS: Final = "diffusion embed rerank speech"
JOBS: Final = "train finetune distill rl"
REPLICAS: Final = f"{CHAT} {ITEMS} batch"
"""Work that is done by equal replicas of a model."""


@dataclass(frozen=True, slots=True)
class Acts:
    """Questions on which an option has an effect: on the answer, or on how it is shown."""

    work: frozenset[str]
    beside_plan: bool
    """Whether it may change what a plan says that is asked again (--from)."""
    beside_models: bool
    """Whether it says something about all of several models (--models)."""
    of_each_model: bool
    """Whether each of several models may have its own: `--models 8b@20:profile=rag`."""
    of_rent: bool
    """Whether the option says what may be rented and therefore does not act together with --own."""
    instead: str
    """Option with the same purpose for other work, as typed."""


def acts(
    work: str,
    *,
    plan: bool = False,
    models: bool = False,
    each: bool = False,
    rent: bool = False,
    instead: str = "",
) -> Acts:
    """Declare for which work an option acts; `work` holds workloads with spaces between them."""
    return Acts(frozenset(work.split()), plan, models, each, rent, instead)


def acts_of(inputs: type) -> Mapping[str, Acts]:
    """Return the work for which each option of a dataclass acts, by name; options that declare none are left out."""
    found = {each.name: get_args(each.annotation)[2:] for each in parameters_of(inputs)}
    return {name: one for name, more in found.items() for one in more if isinstance(one, Acts)}


def refuse_idle(asked: Any, typed: Collection[str] = frozenset()) -> None:
    """Refuse the first given option that has no effect on the requested work.

    `asked` is the record of a command with a workload; `typed` names options that were given with their default.

    Raises: AdvisorError: there is one, or one needs another.
    """
    known = acts_of(type(asked))
    names = given_options(asked, typed)
    # A plan says its own work; `serve` is what stands where none is typed.
    has_plan = "from_plan" in names and (asked.workload in known["from_plan"].work or "workload" not in names)
    has_models = not has_plan and "models" in names and asked.workload in known["models"].work
    for name in names:
        one = known[name]
        if has_models and not one.beside_models:
            raise _beside_models(name, one)
        if has_plan and not one.beside_plan:
            raise AdvisorError(
                f"{option_of(name)} means nothing beside --from",
                why="the plan says it; only limits and prices may change",
                fix=f"drop {option_of(name)}, or ask without --from",
            )
        if asked.workload not in one.work and not has_plan:
            raise _idle(name, asked, known)
    for name in names:
        needed = _DEPENDENT.get(name)
        if needed is not None and not needed.acts(asked):
            raise AdvisorError(
                f"{option_of(name)} does nothing here",
                why=needed.why,
                fix=f"{needed.fix}, or drop {option_of(name)}",
            )
    _refuse_rent(asked, [name for name in names if known[name].of_rent])


def _generates(asked: Any) -> bool:
    """Whether the policy of a question generates the outputs that it learns from."""
    # The simulator is imported only to answer: help shows without it.
    from advisor.simulator.training.reinforcement import generates

    return generates(asked.training.algorithm)


class _Dependent(NamedTuple):
    """An option that acts only if another option has certain values."""

    acts: Callable[[Any], bool]
    why: str
    fix: str


_OFFLINE: Final = "the outputs are given, with their judgement: nothing is generated"
_DEPENDENT: Final[Mapping[str, _Dependent]] = {
    "lora_rank": _Dependent(
        lambda asked: asked.training.method in ("lora", "qlora", "dora"),
        "all weights are trained, or IA3's vectors: there is no rank",
        "--method lora",
    ),
    "samples": _Dependent(_generates, _OFFLINE, "--algorithm grpo"),
    "placement": _Dependent(_generates, _OFFLINE, "--algorithm grpo"),
    "reward_model": _Dependent(_generates, _OFFLINE, "--algorithm grpo"),
    "reward_time": _Dependent(_generates, _OFFLINE, "--algorithm grpo"),
    "off_policy": _Dependent(
        lambda asked: _generates(asked) and asked.training.placement != "colocated",
        "outputs lag behind the weights only where other machines generate them",
        "--algorithm grpo --placement disaggregated",
    ),
    "spot_losses_per_day": _Dependent(
        lambda asked: "spot" in asked.where.term, "only machines rented as spot are taken back", "--term spot"
    ),
}


def option_of(name: str) -> str:
    """Return the option, as typed, that a field stands for."""
    return "--from" if name == "from_plan" else f"--{name.replace('_', '-')}"


def _idle(name: str, asked: Any, known: Mapping[str, Acts]) -> AdvisorError:
    """Return the refusal of an option that does nothing for a workload, with what to type instead: the option with the
    same purpose, or else one that has the typed value among its own."""
    workload = asked.workload
    option = option_of(name)
    one = known[name]
    takers = [each for each in get_args(Work) if each in one.work]
    instead = [one.instead] if one.instead else []
    instead = [each for each in instead if workload in known[field_of(each)].work]
    instead = instead or _takers_of(given_value(asked, name), asked, known)
    return AdvisorError(
        f"{option} means nothing for --workload {workload}",
        why=f"it acts for {', '.join(takers)}",
        fix=f"{' or '.join(instead)}, or drop {option}" if instead else f"drop {option}",
        hint=f"advisor recommend --workload {workload} --help lists what acts",
    )


def field_of(option: str) -> str:
    """Return the field that an option as typed stands for."""
    return option.split()[0].removeprefix("--").replace("-", "_")


def _takers_of(value: object, asked: Any, known: Mapping[str, Acts]) -> list[str]:
    """Return the options of a workload, each with the value, that have a value among their own words."""
    if not isinstance(value, str):
        return []
    found = []
    for each in parameters_of(type(asked)):
        choices = choices_of(each.annotation)
        word = choice_of(value, choices)
        acts_here = each.name in known and asked.workload in known[each.name].work
        if acts_here and word in choices:
            found.append(f"{option_of(each.name)} {word}")
    return found


def _beside_models(name: str, one: Acts) -> AdvisorError:
    option = option_of(name)
    return AdvisorError(
        f"{option} means nothing beside --models",
        why="each model has a load of its own" if one.of_each_model else "it is of one model",
        fix=f"--models NAME@RATE{'' if name == 'rate' else f':{option[2:]}=VALUE'}"
        if one.of_each_model
        else f"drop {option}, or --models",
    )


def _refuse_rent(asked: Any, of_rent: list[str]) -> None:
    """Refuse rental options with --own, and --power-budget without it, because the provider powers rented hardware."""
    where = asked.where
    if asked.workload in TRAINING:
        of_rent = [name for name in of_rent if name != "region"]  # the grid whose carbon counts
    if where.own is not None and of_rent:
        option = option_of(of_rent[0])
        raise AdvisorError(
            f"--own and {option} exclude each other",
            why=f"{option} says what may be rented, and what is there already is not",
            fix=f"drop {option}, or --own",
        )
    if where.power_budget is not None and where.own is None:
        raise AdvisorError(
            "--power-budget is for machines of your own",
            why="a seller feeds what is rented",
            fix="--own 8xh100-sxm, or drop --power-budget",
        )

"""Which options of `advisor recommend` act for which work: one that would do nothing is refused, never dropped."""

from dataclasses import fields, is_dataclass
from typing import Any, Final

from advisor.catalog.errors import AdvisorError
from advisor.commands.recommend.options import TRAINING, RecommendInput


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ANY: Final = _words(
    "model workload top explain gpu provider own precision term tenancy region residency max_price_age max_gpus "
    "price_file budget power_budget storage_tb egress_tb"
)
_CHAT: Final = _words(
    "rate concurrency input_tokens output_tokens profile engine plan ttft_p99 tpot_p99 ttft_p95 ttft_p50 tpot_p95 "
    "tpot_p50 itl_p99 e2e_p99 headroom redundancy"
)
_ITEMS: Final = _words("rate latency_p99 runtime max_batch")
_REPLICA: Final = _words("max_gpus")
_JOB: Final = _words(
    "plan from_plan method lora_rank optimizer framework gpus deadline checkpoints mtbf_hours restart "
    "spot_losses_per_day elastic stragglers tokens compute_optimal"
)
_ROLLOUTS: Final = _words(
    "algorithm prompts samples rl_steps placement off_policy reward_time reward_model input_tokens output_tokens"
)
ACTS: Final[dict[str, frozenset[str]]] = {
    "serve": _ANY
    | _CHAT
    | _words(
        "models trace trace_speed goal from_plan fast shared_prefix_tokens shared_prefixes sessions turn_gap levers "
        "acceptance adapters adapter_rank adapter_slots emit emit_dir max_context"
    ),
    "diffusion": _ANY | _ITEMS | _words("steps image_size guidance"),
    "embed": _ANY | _ITEMS | _words("input_tokens"),
    "rerank": _ANY | _ITEMS | _words("input_tokens query_tokens"),
    "speech": _ANY | _ITEMS | _words("output_tokens"),
    "vision": _ANY | _CHAT | _words("images image_size image_scheme"),
    # A rate of a batch is refused with words of its own.
    "batch": _ANY
    | _words(
        "input_tokens output_tokens profile trace engine items deadline spot_losses_per_day rate concurrency"
    ),
    "train": (_ANY | _JOB | _words("sequence global_batch")) - _REPLICA,
    "finetune": (_ANY | _JOB | _words("sequence global_batch mean_length")) - _REPLICA,
    "distill": (_ANY | _JOB | _words("teacher items input_tokens output_tokens engine sequence global_batch"))
    - _words("precision budget compute_optimal plan from_plan")
    - _REPLICA,
    "rl": (_ANY | _JOB | _ROLLOUTS) - _REPLICA,
}
ON_A_PLAN: Final = _words(
    "from_plan model workload gpus deadline budget gpu provider own term tenancy residency region max_price_age "
    "price_file power_budget storage_tb egress_tb top plan explain"
)
"""What `--from` may change of a plan's question, or say again."""
ON_MODELS: Final = (
    _ANY
    | _words(
        "models engine fast levers acceptance emit emit_dir headroom redundancy ttft_p99 tpot_p99 ttft_p95 ttft_p50 "
        "tpot_p95 tpot_p50 itl_p99 e2e_p99"
    )
) - _words("model")
"""What says something about all of several models."""
_INSTEAD: Final = {
    "gpus": "--max-gpus",
    "max_gpus": "--gpus",
    "engine": "--runtime",
    "framework": "--engine",
    "goal": "--workload serve",
}


def refuse_idle(asked: RecommendInput, typed: frozenset[str] = frozenset()) -> None:
    """Tell of the first option given that does nothing for this work.

    Raises: AdvisorError: there is one, or one needs another.
    """
    acts = ACTS[asked.workload]
    has_plan = asked.training.from_plan is not None and "from_plan" in acts
    for name in given(asked, typed):
        if asked.models is not None and "models" in acts and not has_plan and name not in ON_MODELS:
            option = f"--{name.replace('_', '-')}"
            own = name in _words(
                "rate input_tokens output_tokens profile trace shared_prefix_tokens shared_prefixes"
            )
            raise AdvisorError(
                f"{option} means nothing beside --models",
                why="each model has a load of its own" if own else "it is of one model",
                fix=f"--models NAME@RATE{'' if name == 'rate' else f':{option[2:]}=VALUE'}"
                if own
                else f"drop {option}, or --models",
            )
        if has_plan and name not in ON_A_PLAN:
            option = f"--{name.replace('_', '-')}"
            raise AdvisorError(
                f"{option} means nothing beside --from",
                why="the plan says it; only limits and prices may change",
                fix=f"drop {option}, or ask without --from",
            )
        if name in acts or has_plan:
            continue
        option = "--from" if name == "from_plan" else f"--{name.replace('_', '-')}"
        takers = [workload for workload, taken in ACTS.items() if name in taken]
        instead = _INSTEAD.get(name, "")
        fits = instead and instead.removeprefix("--").replace("-", "_").split()[0] in acts
        raise AdvisorError(
            f"{option} means nothing for --workload {asked.workload}",
            why=f"it acts for {', '.join(takers)}",
            fix=f"{instead}, or drop {option}" if fits else f"drop {option}",
        )
    _refuse_for_own(asked, typed)


_OF_SELLERS: Final = (
    "gpu", "provider", "term", "tenancy", "residency", "region", "max_price_age", "price_file",
)  # fmt: skip


def _refuse_for_own(asked: RecommendInput, typed: frozenset[str]) -> None:
    """What is there already is bought nowhere; what is rented is fed by its seller."""
    where = asked.where
    named = [name for name in given(where, typed) if name in _OF_SELLERS] if where.own is not None else []
    if asked.workload in TRAINING and "region" in named:
        named.remove("region")  # whose grid counts
    if named:
        option = f"--{named[0].replace('_', '-')}"
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


def given(inputs: Any, typed: frozenset[str] = frozenset(), default: Any = None) -> list[str]:
    """Names of the options that were typed, or whose value is not their default; groups opened."""
    plain = type(inputs)() if default is None else default
    names = []
    for field in fields(inputs):
        value, usual = getattr(inputs, field.name), getattr(plain, field.name)
        if is_dataclass(usual):
            names += given(value, typed, usual)
        elif value != usual or field.name in typed:
            names.append(field.name)
    return names

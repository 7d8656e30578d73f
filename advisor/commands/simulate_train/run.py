"""Simulate one stated training plan: from a file, from options, or from both."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from advisor.ask.measures import parse_count
from advisor.ask.options import SharedOptions
from advisor.ask.own_data import given_calibration
from advisor.catalog import accelerators, models
from advisor.catalog.errors import AdvisorError, InfeasibleError, InputFileError
from advisor.catalog.files import parsed_json, read_text, read_toml
from advisor.catalog.resolve import known_value
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import GB
from advisor.commands.simulate_train.conditions import (
    check_release,
    habit_notes,
    host_note,
    launch_note,
    network_note,
    stated_cluster,
    stated_switches,
    with_switches,
)
from advisor.commands.simulate_train.data_supply import with_stated_data
from advisor.commands.simulate_train.far_sites import far_sites
from advisor.commands.simulate_train.islands import islands_of
from advisor.commands.simulate_train.options import TrainInput, TrainLayout
from advisor.commands.simulate_train.view import TrainRun, train_answer
from advisor.decide.training.fixed_layout import batch_near
from advisor.decide.training.islands import ACROSS, Islands, over_islands
from advisor.decide.training.money import unsold
from advisor.decide.training.near_plans import nearest_that_runs
from advisor.decide.training.scenario import DEFAULT_LORA_RANK
from advisor.decide.training.search import (
    PlanFound,
    Tally,
    best_plans,
    does_fit,
    evaluate_plan,
    simulate_pipeline,
)
from advisor.decide.training.simulate_args import layout_args
from advisor.decide.training.space import (
    ADAPTER_FRAMEWORKS,
    COMPUTE_DTYPES,
    FRAMEWORKS,
    RULES,
    TUNING_FRAMEWORKS,
    Variant,
    family_asked,
    host_layouts,
    limits_of,
    offloads_checkpoints,
    option_faults,
    peak_flop_per_s,
    program_asked,
    release_note,
    training_job,
)
from advisor.render.answer import Answer
from advisor.render.atomic import check_writable, write_text
from advisor.render.calibration_view import with_calibration
from advisor.render.saved import check_saved
from advisor.simulator.calibrated_device import calibrated_accelerator
from advisor.simulator.training.cluster import TrainingCluster
from advisor.simulator.training.families import OF_TRANSFORMERS
from advisor.simulator.training.job import METHODS, OPTIMIZERS, TrainingJob
from advisor.simulator.training.lattice import LatticeLimits
from advisor.simulator.training.plan import (
    RECOMPUTES,
    SCHEDULES,
    SHARDINGS,
    Sharding,
    TrainingPlan,
)
from advisor.simulator.training.plan_check import check_plan, plan_words
from advisor.simulator.training.release_months import check_release_name
from advisor.simulator.training.releases import SEQUENCE_PARALLELISM, has_feature, limits_at, missing_features

_DEFAULT_BATCH: Final = 512
_DEFAULT_SEQUENCE: Final = 8192
_MOST_DOUBLINGS: Final = 6
"""Doublings of accelerators that are tried for a plan that does not fit: 8 become 512."""
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "sharding": SHARDINGS,
    "recompute": RECOMPUTES,
    "schedule": SCHEDULES,
    "method": METHODS,
    "optimizer": OPTIMIZERS,
    "across": ACROSS,
    "data": ("tokens", "text"),
}

_LAYOUT: Final = frozenset(field.name for field in fields(TrainLayout))
_FIELDS: Final = _LAYOUT | {field.name for field in fields(TrainInput)} - {"plan", "layout"}
"""Fields that a plan file may state."""
_HINTS: Final = get_type_hints(TrainInput) | get_type_hints(TrainLayout)


def train(asked: TrainInput, shared: SharedOptions) -> Answer:
    """Return the answer on one step of a stated plan; typed options win over the file.

    Raises: AdvisorError and its kinds: something is malformed, unknown, or the plan cannot run.
    """
    for path in (asked.chrome_trace, asked.memory_snapshot):
        if path is not None:
            check_writable(path)
    values = with_switches(
        {**(_from_file(asked.plan) if asked.plan is not None else {}), **asked.plan_options()}
    )
    known = ""
    if "framework" in values:
        family, known = family_asked(str(values["framework"]))
        values |= {"framework": family} | (
            {"software": program_asked(str(values["framework"])) or str(values["framework"])} if known else {}
        )
    if "model" not in values:
        raise AdvisorError("no model is named", why="--model is missing", fix="--model 70b, or a plan file")
    sites = far_sites(values)
    chosen = models.get(str(values["model"]))
    chip = accelerators.get(str(values.get("gpu", "h100-sxm")))
    calibration = given_calibration(shared.calibration)
    cluster = stated_cluster(values, calibrated_accelerator(chip.record, calibration))
    islands, second = islands_of(values, cluster, calibration)
    clusters = islands.clusters if islands else (cluster,)
    job = _job(values, chosen.record, cluster.accelerator)
    for each in clusters:
        _check_precision(job, each)
    plan, told = _stated_or_fastest(_of_whole(values, islands), job, clusters)
    hosted = _check(plan, job, clusters, values)
    tokens = parse_count(str(values["tokens"]), "--tokens") if "tokens" in values else None
    counts = islands.counts if islands else (plan.num_accelerators,)
    sold = [
        unsold(each.accelerator, count, shared.as_of) if count > each.accelerator.node_size else ""
        for each, count in zip(clusters, counts, strict=True)
    ]
    if islands is None:
        found = simulate_pipeline(evaluate_plan(job, cluster, plan))
        fits = [does_fit(found)]
        waiting, data = with_stated_data(found, values)
        run = TrainRun(waiting, all(fits), tokens, "framework" in values, sites, data_words=data)
    else:
        split = over_islands(job, islands, plan, values.get("across"))
        fits = list(split.fit)
        run = TrainRun(split.found, all(fits), tokens, "framework" in values, islands=(islands, split))
    too_large = ""
    if not all(fits):
        too_large = _too_large(run.found, values) if islands is None else _part_too_large(islands, fits)
    told_network = network_note(cluster, plan.num_accelerators) if islands is None else ""
    launches = launch_note(job, cluster, plan) if islands is None else ""
    release = release_note(job.software, job.framework_version)
    habits = habit_notes(job, cluster, plan, fits=islands is None and all(fits))
    about_run = (
        chosen.note,
        chip.note,
        known,
        release,
        second,
        told,
        hosted,
        *habits,
        told_network,
        launches,
    )
    notes = tuple(filter(None, about_run))
    about = {"model": job.model.id, "accelerator": cluster.accelerator.id, "plan": plan_words(plan)}
    notes = (*notes, *_write_files(asked, run, about))
    answer = train_answer(run, notes, tuple(filter(None, (too_large, *sold))))
    return with_calibration(answer, calibration, tuple(each.accelerator.id for each in clusters))


def _write_files(asked: TrainInput, run: TrainRun, about: Mapping[str, object]) -> tuple[str, ...]:
    """Write the step into the files that were named, and return a note for each.

    Raises: AdvisorError: a snapshot of two clusters is asked.
    """
    notes: tuple[str, ...] = ()
    if asked.memory_snapshot is not None:
        if run.islands is not None:
            raise AdvisorError(
                "--memory-snapshot is of one cluster",
                why="two clusters hold unlike parts of the step",
                fix="leave out the options of the second cluster, or --memory-snapshot",
            )
        from advisor.decide.training.memory_over_step import memory_over_step
        from advisor.render.memory_snapshot import snapshot_text

        write_text(asked.memory_snapshot, snapshot_text(memory_over_step(run.found), about))
        notes = (*notes, f"wrote {asked.memory_snapshot}")
    if asked.chrome_trace is not None:
        from advisor.render.chrome_trace import trace_text, training_events

        events = training_events(run.found.breakdown_s, run.found.run)
        write_text(asked.chrome_trace, trace_text(events, about))
        notes = (*notes, f"wrote {asked.chrome_trace}")
    return notes


def _of_whole(values: Mapping[str, Any], islands: Islands | None) -> Mapping[str, Any]:
    """Return the typed values, with the accelerators of both clusters in all.

    Raises: AdvisorError: they make no whole number of replicas.
    """
    if islands is None:
        return values
    size = math.prod(int(values.get(name, 1)) for name in ("tp", "pp", "cp"))
    first, second = islands.counts
    if (first + second) % size:
        near = max(1, round((first + second) / size), first // size + 1) * size - first
        raise AdvisorError(
            f"{first} and {second} accelerators are no multiple of TP × PP × CP = {size}",
            why="every replica has as many",
            fix=f"--beside {near}x{islands.clusters[1].accelerator.id}, or other degrees",
        )
    return {**values, "gpus": first + second}


def _part_too_large(islands: Islands, fits: Sequence[bool]) -> str:
    names = [c.accelerator.id for c, held in zip(islands.clusters, fits, strict=True) if not held]
    return f"does not fit on {' and '.join(names)}: more stages, tensor ranks or recomputation"


def _from_file(path: Path) -> dict[str, Any]:
    """Return options in a TOML file, or the first option of a plan that `advisor recommend --plan` wrote.

    Raises: InputFileError: it cannot be read, or has a field that is no option.
    """
    if path.suffix == ".json":
        return _from_recommendation(path)
    return _check_fields(path, read_toml(path))


def _check_fields(path: Path, data: Mapping[str, Any]) -> dict[str, Any]:
    """Raises: InputFileError: a field is no option, or holds what none may."""
    value: Any
    for name, value in data.items():
        where = f"{path}: field {name}"
        if name not in _FIELDS:
            raise InputFileError(
                f"{where}: no such field", why=f"fields are {', '.join(sorted(_FIELDS))}", fix="correct it"
            )
        if name in _WORDS and value not in _WORDS[name]:
            raise InputFileError(
                f"{where}: {value!r}", why=f"known are {', '.join(_WORDS[name])}", fix=f"correct {name}"
            )
        expected = _type_of(name)
        if not isinstance(value, expected) or (expected is not bool and isinstance(value, bool)):
            raise InputFileError(
                f"{where}: {value!r}", why="a value of another kind is expected", fix=f"correct {name}"
            )
        if isinstance(value, int) and expected is int and value < 1:
            raise InputFileError(f"{where}: {value}", why="it is at least 1", fix=f"correct {name}")
    return dict(data)


def _type_of(name: str) -> type | tuple[type, ...]:
    """Return the types that a field of a plan file may have: those of the option of its name."""
    if name == "tokens":
        return str, int, float
    kind = get_args(_HINTS[name])[0]
    if kind is float:
        return int, float
    return str if get_origin(kind) is Literal else kind


def _program_of(arguments: Sequence[str]) -> str:
    """Return the framework that the options of a saved plan name, which may be one of a family; empty without one."""
    return arguments[arguments.index("--framework") + 1] if "--framework" in arguments else ""


def _from_recommendation(path: Path) -> dict[str, Any]:
    try:
        content = parsed_json(read_text(path))
        check_saved(path, content)
        option = content["options"][0]
        task = content["inputs"]["task"]
        plan = dict(option["plan"])
        values = {
            "model": content["model"],
            "gpu": option["machine"]["accelerator"],
            "global_batch": task["global_batch"],
            "sequence": task["sequence_tokens"],
            "method": task["method"],
            "optimizer": task["optimizer"],
            "precision": plan["compute_dtype"],
            "framework": _program_of(option["launch"]["simulate_args"]) or plan["framework"],
            "sequence_parallel": plan["sp"],
        }
        conditions = content["inputs"].get("conditions", {})
        if conditions.get("network"):
            values["network"] = conditions["network"]
        if conditions.get("host_bytes"):
            values["host_memory"] = f"{conditions['host_bytes'] / GB:g}GB"
        if conditions.get("power_cap_w"):
            values["power_cap_w"] = conditions["power_cap_w"]
        if task.get("framework_version"):
            values["framework_version"] = task["framework_version"]
        if task.get("mean_sequence_tokens"):
            values["mean_length"] = int(task["mean_sequence_tokens"])
        if task.get("lora_rank"):
            values["lora_rank"] = task["lora_rank"]
        degrees = ("tp", "pp", "vpp", "cp", "ep", "dp", "micro_batch", "sharding", "recompute", "schedule")
        values |= {name: plan[name] for name in degrees}
        layers = ("etp", "shard_group", "recompute_layers", "first_stage_layers", "last_stage_layers")
        values |= {name: plan[name] for name in layers if plan.get(name, 0) > 0}
        values |= {f"offload_{part}": True for part in plan.get("offload", "").split(", ") if part}
    except (ValueError, RecursionError, KeyError, IndexError, TypeError, AttributeError):
        raise InputFileError(
            f"{path}: is no training plan",
            why="it has no first option with a plan",
            fix="name a file of --plan",
        ) from None
    return _check_fields(path, values)


def _job(values: Mapping[str, Any], model: Any, accelerator: Accelerator) -> TrainingJob:
    known_value(values.get("precision"), COMPUTE_DTYPES, "precision")
    method = values.get("method", "full")
    framework = values.get("framework", "megatron" if method == "full" else "peft")
    dtype = values.get("precision") or accelerator.sixteen_bit_dtype
    version = check_release_name(framework, str(values.get("framework_version", "")))
    switches = stated_switches(values, framework)
    job = training_job(
        model,
        values.get("sequence") or min(_DEFAULT_SEQUENCE, model.max_context_tokens or _DEFAULT_SEQUENCE),
        values.get("global_batch") or batch_near(_DEFAULT_BATCH, _ranks(values)),
        dtype,
        framework,
        method=method,
        lora_rank=values.get("lora_rank", DEFAULT_LORA_RANK) if method not in ("full", "ia3") else 0,
        optimizer=values.get("optimizer", "adamw"),
        mean_sequence_tokens=float(values.get("mean_length", 0.0)),
        version=version,
        switches=_gradients(values.get("gradients"), framework) | switches.features,
        architecture=accelerator.architecture,
        software=str(values.get("software", "")),
    )
    software = str(values.get("software", "")) or job.software
    if switches.has_liger:
        return replace(job, software=switches.software(software or framework))
    return replace(job, software=software)


def _ranks(values: Mapping[str, Any]) -> int:
    """Return the data-parallel ranks of the typed values; 1 if accelerators and degrees make no whole number."""
    replica = math.prod(int(values.get(name, 1)) for name in ("tp", "pp", "cp"))
    whole, rest = divmod(int(values.get("gpus", replica)), replica)
    return int(values.get("dp", 0)) or (1 if rest else whole)


def _gradients(asked: str | None, framework: str) -> frozenset[str]:
    if asked == "bf16" and framework != "megatron":
        raise AdvisorError(
            f"--gradients bf16 is Megatron's, not {framework}'s",
            why="others sum gradients in a format of their own",
            fix="--framework megatron",
        )
    return frozenset({"bf16_grad_reduce"}) if asked == "bf16" else frozenset()


def _stated_or_fastest(
    values: Mapping[str, Any], job: TrainingJob, clusters: Sequence[TrainingCluster]
) -> tuple[TrainingPlan, str]:
    """Return the stated layout; if none is stated, the fastest that fits, of two clusters on the second alone, and a
    note that says so."""
    _check_count(values, clusters)
    stated = _plan(values, job)
    if values.keys() & _LAYOUT:
        return stated, ""
    near = _fastest(job, clusters[-1], stated.num_accelerators)
    if near is None:
        return stated, ""
    return near, f"no layout is stated: the fastest that fits is taken, {plan_words(near)}"


def _fastest(job: TrainingJob, cluster: TrainingCluster, num_accelerators: int) -> TrainingPlan | None:
    """Return the fastest plan of a job that fits `num_accelerators`, as a last resort with states in host memory, and
    that its release has all features of; None if no plan fits."""
    limits = limits_at(limits_of(job, cluster), job)
    variants = [Variant(job, cluster, limits), *host_layouts(job, cluster, limits)]
    plans = best_plans(variants, num_accelerators, Tally(), keep=1)
    return plans[0].plan if plans else None


def _plan(values: Mapping[str, Any], job: TrainingJob) -> TrainingPlan:
    tp, pp, cp = (int(values.get(name, 1)) for name in ("tp", "pp", "cp"))
    dp = values.get("dp")
    if dp is None:
        dp = int(values.get("gpus", tp * pp * cp)) // (tp * pp * cp)
    virtual = int(values.get("vpp", 1))
    recompute = values.get("recompute", "none")
    return TrainingPlan(
        tensor_parallel=tp,
        pipeline_parallel=pp,
        virtual_stages=virtual,
        context_parallel=cp,
        expert_parallel=values.get("ep", 1),
        expert_tensor_parallel=values.get("etp", 0),
        data_parallel=dp,
        micro_batch=values.get("micro_batch", 1),
        sharding=values.get("sharding") or _usual_sharding(job, dp * cp),
        shard_group=values.get("shard_group", 0),
        recompute=recompute,
        recompute_layers=values.get("recompute_layers", -1),
        schedule=values.get("schedule", "interleaved" if virtual > 1 else "1f1b"),
        sequence_parallel=values.get("sequence_parallel", tp > 1 and has_feature(job, SEQUENCE_PARALLELISM)),
        first_stage_layers=values.get("first_stage_layers", 0),
        last_stage_layers=values.get("last_stage_layers", 0),
        offload_optimizer=bool(values.get("offload_optimizer", False)),
        offload_parameters=bool(values.get("offload_parameters", False)),
        offload_activations=bool(
            values.get("offload_activations", recompute == "full" and offloads_checkpoints(job))
        ),
    )


def _usual_sharding(job: TrainingJob, num_ranks: int) -> Sharding:
    """Return the default sharding over data ranks: none on one, else the optimizer or what the framework's release
    knows."""
    if num_ranks == 1:
        return "none"
    known = limits_at(LatticeLimits(1, sharding=RULES[job.framework].shardings), job).sharding
    return "zero1" if "zero1" in known else known[-1]


def _runs(values: Mapping[str, Any], cluster: TrainingCluster) -> bool:
    """Whether the layout of some typed values divides the model and the batch, is one that the named framework and the
    release have, and fits."""
    job = _job(values, models.get(str(values["model"])).record, cluster.accelerator)
    plan = _plan(values, job)
    try:
        check_plan(plan, job, cluster.domain)
        check_release(plan, job)
    except InfeasibleError:
        return False
    is_lacking = "framework" in values and any(option_faults(job, plan))
    return not is_lacking and does_fit(evaluate_plan(job, cluster, plan))


def _check_count(values: Mapping[str, Any], clusters: Sequence[TrainingCluster]) -> None:
    """Refuse a number of accelerators that is not what the degrees make, or makes no whole number of replicas.

    Raises: AdvisorError: so it is; the fix is the nearest number that does, or on one cluster, where the layout does
        not run on it, the nearest plan that runs.
    """
    tp, pp, cp = (int(values.get(name, 1)) for name in ("tp", "pp", "cp"))
    replica = tp * pp * cp
    count = values.get("gpus")
    if count is None or (count == replica * values["dp"] if "dp" in values else count % replica == 0):
        return
    free = {name: value for name, value in values.items() if name != "dp"}
    if "dp" not in values:
        what = f"--gpus {count} is not a multiple of TP × PP × CP = {replica}"
        why = "every data-parallel rank has as many accelerators"
        # Of two as near, the smaller: its accelerators are there.
        needed = max(1, math.ceil(count / replica - 0.5)) * replica
        mended = {**values, "gpus": needed}
        fix = f"--gpus {needed}, or other degrees"
    else:
        needed = replica * values["dp"]
        what = f"--gpus {count} is not TP {tp} × PP {pp} × CP {cp} × DP {values['dp']}"
        why = f"these use {needed} accelerators"
        is_whole = count % replica == 0
        mended = free if is_whole else {**values, "gpus": needed}
        fix = "drop --dp" if is_whole else f"--gpus {needed}"
    if len(clusters) == 1 and not _runs(mended, clusters[0]):
        job = _job(free, models.get(str(values["model"])).record, clusters[0].accelerator)
        is_named = "framework" in values
        counts = [(count, min(count, needed)), *_counts_near(count, is_typed=True)[1:]]
        near = nearest_that_runs(_plan(mended, job), job, clusters[0], counts, is_of_framework=is_named)
        fix = _layout_words(near, values, job) if near else f"{fix}; no plan near it runs"
    raise AdvisorError(what, why=why, fix=fix)


def _check_precision(job: TrainingJob, cluster: TrainingCluster) -> None:
    accelerator = cluster.accelerator
    if peak_flop_per_s(accelerator, job.compute_dtype) is not None:
        return
    usable = [dtype for dtype in COMPUTE_DTYPES if peak_flop_per_s(accelerator, dtype)]
    raise InfeasibleError(
        f"{accelerator.id} has no units for {job.compute_dtype}",
        why=f"formats that it multiplies in: {', '.join(usable)}",
        fix=f"--precision {usable[0]}" if usable else "another accelerator",
    )


def _check(
    plan: TrainingPlan, job: TrainingJob, clusters: Sequence[TrainingCluster], values: Mapping[str, Any]
) -> str:
    """Refuse a layout that does not divide, that the framework which was asked for has no option for, that its release
    lacks, or that keeps more in host memory than is there; return a note on what it keeps there.

    Raises: InfeasibleError: so it is; the fix is one with which the layout runs and fits, or the nearest that does.
    """
    is_named = "framework" in values
    elsewhere = ""
    is_of_host = False
    try:
        check_plan(plan, job, min(each.domain for each in clusters))
        fault = next(option_faults(job, plan), None) if is_named else None
        if fault is not None:
            elsewhere = _other_framework(plan, job, clusters[0], values)
            fix = elsewhere or "drop --framework: then no launch options are printed"
            raise InfeasibleError(fault[0], why=fault[1], fix=fix)
        check_release(plan, job)
        is_of_host = True
        return host_note(values, plan, job, clusters[0])
    except InfeasibleError as error:
        if len(clusters) > 1 or (is_of_host and does_fit(evaluate_plan(job, clusters[0], plan))):
            raise
        counts = _counts_near(plan.num_accelerators, is_typed="gpus" in values)
        near = nearest_that_runs(plan, job, clusters[0], counts, is_of_framework=is_named)
        if near is None:
            raise
        options = _layout_words(near, values, job)
        who = f"{job.framework} " if is_named else ""
        fix = f"{elsewhere}, or {options}" if elsewhere else options
        if plan.tensor_parallel > clusters[0].domain:
            fix += ", or --gpus-per-node if your nodes are larger"
        hint = f"the nearest plan that {who}runs: {plan_words(near)}"
        raise InfeasibleError(error.what, why=error.why, fix=fix, hint=hint) from None


def _counts_near(count: int, *, is_typed: bool) -> list[tuple[int, ...]]:
    """Return numbers of accelerators to try in place of a plan's, in groups: its own, the powers of two around it, and
    larger ones; a number that follows from degrees is no better than its neighbours."""
    below = 1 << (count.bit_length() - 1)
    around = (below, 2 * below)
    larger = [(below << power,) for power in range(2, _MOST_DOUBLINGS + 1)]
    return [(count,), around, *larger] if is_typed else [(count, *around), *larger]


def _other_framework(
    plan: TrainingPlan, job: TrainingJob, cluster: TrainingCluster, values: Mapping[str, Any]
) -> str:
    """Return the option of another framework that has a layout which the named one lacks, and in which it fits; empty
    if there is none."""
    families = FRAMEWORKS if job.method == "full" else ADAPTER_FRAMEWORKS
    others = dict.fromkeys((*families.get(cluster.accelerator.vendor, ()), *TUNING_FRAMEWORKS))
    plain = {name: value for name, value in values.items() if name not in ("framework_version", "software")}
    for name in others:
        try:
            other = _job({**plain, "framework": name}, job.model, cluster.accelerator)
        except AdvisorError:
            continue
        if not any(option_faults(other, plan)) and does_fit(evaluate_plan(other, cluster, plan)):
            return f"--framework {name}"
    return ""


def _layout_words(plan: TrainingPlan, values: Mapping[str, Any], job: TrainingJob) -> str:
    """Return the options that make a layout of what was typed: all of it, with the accelerators and the batch where
    other ones were typed or follow, and what to drop first."""
    count = plan.num_accelerators
    words = layout_args(plan, values.keys())
    if values.get("gpus", count) != count:
        words += ["--gpus", str(count)]
    if "global_batch" not in values and batch_near(_DEFAULT_BATCH, plan.data_parallel) != job.global_batch:
        words += ["--global-batch", str(job.global_batch)]
    parts = sorted(values.keys() & _LAYOUT)
    is_apart = values.get("sequence_parallel", plan.sequence_parallel) != plan.sequence_parallel
    dropped = dict.fromkeys(
        _typed_option(part, values)
        for part in parts
        if (is_apart if part == "sequence_parallel" else _option(part) not in words)
    )
    return f"drop {' and '.join(dropped)}, with {' '.join(words)}" if dropped else " ".join(words)


def _option(part: str) -> str:
    return f"--{part.replace('_', '-')}"


def _typed_option(part: str, values: Mapping[str, Any]) -> str:
    """Return the option by which a part of a layout was typed."""
    if "features" in values and part in with_switches({"features": values["features"]}):
        return "--features"
    return _option(part) if values[part] is not False else f"--no-{_option(part)[2:]}"


def _too_large(found: PlanFound, values: Mapping[str, Any]) -> str:
    """Return the message that the plan does not fit, with the options of the fastest plan that does, or with what else
    would let one fit."""
    memory = found.cluster.accelerator.memory_bytes or 0.0
    short = math.ceil((found.peak_memory_bytes - memory) / GB)
    return f"does not fit: needs {short} GB more per accelerator{_what_fits(found, values)}"


def _what_fits(found: PlanFound, values: Mapping[str, Any]) -> str:
    fastest = _fastest(found.job, found.cluster, found.num_accelerators)
    if fastest is not None:
        return f"; the fastest plan that fits: {_layout_words(fastest, values, found.job)}"
    if found.job.framework in OF_TRANSFORMERS:
        words = ",".join(filter(None, (str(values.get("features", "")), "liger")))
        fused = _job({**values, "features": words}, found.job.model, found.cluster.accelerator)
        has_it = not any(missing_features(fused, found.plan))
        if has_it and does_fit(evaluate_plan(fused, found.cluster, found.plan)):
            return f"; it fits with --features {words}, which computes the loss in parts"
    for doublings in range(1, _MOST_DOUBLINGS + 1):
        count = found.num_accelerators << doublings
        more = _fastest(found.job, found.cluster, count)
        if more is not None:
            return (
                f"; on more accelerators this fits: {_layout_words(more, {**values, 'gpus': 0}, found.job)}"
            )
    return ""

"""How what was found is started, and simulated again: commands of replicas, and the unlike parts of a fleet."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from advisor.catalog import accelerators, models
from advisor.catalog.architectures import needs_repository_code, repository_of
from advisor.catalog.context_scaling import scaling_words
from advisor.catalog.dtypes import GGUF_DTYPES
from advisor.catalog.launch import Guess, LaunchSettings, device_words, launch
from advisor.catalog.launch_options import launch_options, words_in_release
from advisor.catalog.legible import Line
from advisor.catalog.published import checkpoint_for, loadable_checkpoints
from advisor.catalog.schema import Engine, LatentAttention, Model
from advisor.decide.candidates import Candidate
from advisor.decide.levers import BY_LENGTH, eagle_head
from advisor.decide.offers import machine_of, offer_of
from advisor.decide.option import Explanation, Launch, Layout, Machine, Option
from advisor.decide.own_kinds import LEVER as OWN_KINDS
from advisor.decide.purchase import Purchase, machines_bill
from advisor.decide.ranking import Planned
from advisor.decide.scenario import Constraints, Scenario, Traffic, context_window
from advisor.decide.trial import FleetPart, Found
from advisor.simulator.deployment import Deployment, cache_dtype_of
from advisor.simulator.engine_costs import engine_costs, takes_turns
from advisor.simulator.graph.model import is_moe
from advisor.simulator.quantity import Quantity
from advisor.simulator.replica_model import ReplicaModel


def launch_of(
    candidate: Candidate,
    scenario: Scenario,
    machine: Machine,
    role: str = "",
    *,
    simulate_args: tuple[str, ...] = (),
) -> Launch:
    """How one replica is started on its machines. Source: catalog.launch."""
    checkpoint = candidate.checkpoint
    deployment = candidate.deployment
    repository = checkpoint.repository
    if checkpoint.is_made_first:
        ending = deployment.engine.flags.reads_only
        repository = f"./{deployment.model.id}-{deployment.weight_dtype}{ending and '.'}{ending}"
    elif deployment.weight_dtype in GGUF_DTYPES and ":" not in repository:
        repository = f"{repository}:{deployment.weight_dtype.upper()}"
    settings = launch_settings(candidate, scenario, role)
    settings = replace(settings, num_nodes=nodes_of_replica(deployment.accelerators_per_replica, machine))
    found = launch(deployment.engine, repository, settings)
    if release := scenario.constraints.release_of(deployment.engine.id):
        words = words_in_release(deployment.engine.id, found.argv, release)
        for _, after in found.lines:
            words_in_release(deployment.engine.id, shlex.split(after), release)
        found = replace(found, argv=tuple(map(Line, words)))
    chip = deployment.accelerator
    count = deployment.accelerators_per_replica * chip.devices
    if devices := device_words(deployment.engine, chip, count, host_size(machine) * chip.devices):
        found = replace(found, lines=((devices, ""),))
    return Launch(found.command, found.argv, found.config, checkpoint, simulate_args)


def nodes_of_replica(accelerators_per_replica: int, machine: Machine) -> int:
    """Number of machines, each with an operating system of its own, that hold one replica."""
    return math.ceil(accelerators_per_replica / host_size(machine))


def host_size(machine: Machine) -> int:
    """Accelerators of one machine with an operating system of its own; a rack of one fabric has several."""
    chip = accelerators.by_id(machine.accelerator)
    return min(machine.accelerators_per_node, chip.node_size)


def launch_settings(candidate: Candidate, scenario: Scenario, role: str = "") -> LaunchSettings:
    """Settings with which one replica is started."""
    deployment = candidate.deployment
    adapters = scenario.adapters
    checkpoint = candidate.checkpoint
    first = checkpoint.is_made_first
    model = deployment.model
    max_model_len = _round_up(scenario.traffic.longest_request_tokens, model)
    return LaunchSettings(
        tp=deployment.tensor_parallel * deployment.accelerator.devices,
        pp=deployment.pipeline_parallel,
        dp=deployment.data_parallel,
        ep=deployment.expert_parallel,
        weight_dtype=deployment.weight_dtype,
        checkpoint_dtype=deployment.weight_dtype if first else checkpoint.format,
        kv_dtype=deployment.kv_dtype,
        own_kv_dtype=cache_dtype_of(model, deployment.engine, deployment.accelerator),
        max_num_seqs=candidate.max_num_seqs,
        max_num_batched_tokens=candidate.max_num_batched_tokens,
        max_model_len=max_model_len,
        scaling_words=scaling_words(
            deployment.engine,
            model,
            max_model_len,
            scenario.constraints.release_of(deployment.engine.id),
        ),
        runs_repository_code=needs_repository_code(model, deployment.engine.id),
        tokenizer=repository_of(checkpoint.repository).tokenizer,
        cache_tokens=candidate.memory.kv_capacity_tokens,
        memory_fraction=candidate.memory_fraction,
        prefix_caching=candidate.caches_prefixes if scenario.traffic.reused_input_tokens else None,
        guess=_guess(candidate),
        # vLLM adapts experts only where all ranks gather all tokens: lora/layers/fused_moe.py, _ep_check.
        dispatches=deployment.can_dispatch and deployment.accelerator.vendor == "nvidia" and not adapters,
        takes_turns=takes_turns(
            deployment, engine_costs(deployment.engine, version=deployment.engine.release)
        ),
        adapters=(adapters.count, adapters.rank, adapters.slots) if adapters else None,
        adapted_matrices=_adapted_matrices(deployment),
        adapter_paths=adapters.paths if adapters else (),
        role=role,
    )


def _adapted_matrices(deployment: Deployment) -> Literal["all", "attention", "latent"]:
    """Return the matrices that adapters may change: those of attention alone in mixtures whose experts the engine does
    not adapt in the format of the weights."""
    model = deployment.model
    if not is_moe(model) or deployment.weight_dtype in deployment.engine.adapts_experts:
        return "all"
    is_latent = any(isinstance(layer.mixer, LatentAttention) for layer in model.layers)
    return "latent" if is_latent else "attention"


def layout_of(
    candidate: Candidate, num_replicas: int, max_model_len: int | None, constraints: Constraints
) -> Layout:
    """Return how the engine runs each of `num_replicas` replicas."""
    deployment = candidate.deployment
    options = launch_options().get(deployment.engine.id)
    named = constraints.release_of(deployment.engine.id)
    return Layout(
        engine=deployment.engine.id,
        engine_version=named or (options.release if options else None),
        weight_dtype=deployment.weight_dtype,
        kv_dtype=deployment.kv_dtype,
        tensor_parallel=deployment.tensor_parallel,
        pipeline_parallel=deployment.pipeline_parallel,
        expert_parallel=deployment.expert_parallel,
        data_parallel=deployment.data_parallel,
        context_parallel=1,
        num_replicas=num_replicas,
        max_num_seqs=candidate.max_num_seqs,
        max_num_batched_tokens=candidate.max_num_batched_tokens,
        max_model_len=max_model_len,
    )


def fleet_machine(parts: Sequence[Option], purchase: Purchase, *, is_shared: bool) -> Machine:
    """The machines of unlike parts together, of which `is_shared` says that each holds all parts."""
    last = parts[-1].machine
    count = purchase.num_units * purchase.placement.accelerators_per_unit
    shared_nodes = math.ceil(count / last.accelerators_per_node)
    return replace(
        last,
        accelerator="+".join(dict.fromkeys(part.machine.accelerator for part in parts)),
        num_accelerators=count,
        num_nodes=shared_nodes if is_shared else sum(part.machine.num_nodes for part in parts),
    )


def _guess(candidate: Candidate) -> Guess | None:
    chosen = candidate.speculation
    if chosen is None:
        return None
    kind, _, draft = chosen.name.partition(":")
    head = ""
    model = candidate.deployment.model
    if draft:
        head = _draft_model(models.get(draft).record, candidate.deployment.engine)
    elif kind == "eagle":
        head = eagle_head(model, candidate.deployment.engine.id) or f"./{model.id}-eagle3"
    return Guess(kind, chosen.speculation.draft_tokens, head)


def _draft_model(record: Model, engine: Engine) -> str:
    """Return the checkpoint of a draft model, or the file that must be made of it for an engine of GGUF files."""
    if engine.flags.reads_only != "gguf":
        return checkpoint_for(record, record.weights).hf_id
    found = loadable_checkpoints(record, _DRAFT_GGUF, engine.id)
    return f"{found[0].repository}:{_DRAFT_GGUF.upper()}" if found else f"./{record.id}-{record.weights}.gguf"


_DRAFT_GGUF: Final = "q8_0"
"""Format of a draft model in a GGUF file: the one with the smallest loss that repositories usually have."""


def _round_up(tokens: int, model: Model) -> int:
    """The next multiple of 1024, a context limit that people would type, within the model's window."""
    window = context_window(model)
    rounded = -(-tokens // 1024) * 1024
    return min(rounded, window) if window >= tokens else rounded


def levers_of(candidate: Candidate, scenario: Scenario) -> dict[str, object]:
    """Return the levers applied besides hardware and layout."""
    guess = candidate.speculation
    chosen = None
    if guess is not None:
        chosen = {
            "method": guess.name,
            "draft_tokens": guess.speculation.draft_tokens,
            "acceptance": Quantity(guess.speculation.acceptance, guess.low, guess.high, "assumed"),
            "source": guess.source,
        }
    return {
        "prefix_caching": candidate.caches_prefixes,
        "sticky_router": bool(scenario.traffic.conversations) and candidate.caches_prefixes,
        "reused_input_tokens": scenario.traffic.reused_input_tokens if candidate.caches_prefixes else 0.0,
        "speculation": chosen,
        "adapters": scenario.adapters,
    }


def memory_of(replica: ReplicaModel) -> Mapping[str, float]:
    """Return the bytes in one accelerator's memory, by use."""
    memory = replica.memory
    return {
        "total_bytes": memory.total_bytes,
        "weight_bytes": memory.weight_bytes,
        "activation_bytes": memory.activation_bytes,
        "runtime_bytes": memory.runtime_bytes,
        "kv_bytes": memory.kv_bytes,
    }


def basis_notes(found: Found) -> tuple[str, ...]:
    """Return the notes on measurements of other hardware that the prediction rests on, for all parts."""
    replicas = [part.replica for part in found.fleet.parts] if found.fleet else [found.replica]
    return tuple(sorted({name for replica in replicas for name in replica.transferred_operators}))


def parts_of(plan: Planned, scenario: Scenario) -> tuple[Option, ...]:
    """The unlike parts of a deployment, each as it is bought and started; none where all replicas are alike."""
    fleet = plan.found.fleet
    if fleet is None:
        return ()
    return tuple(_part(rank, part, plan, scenario) for rank, part in enumerate(fleet.parts, start=1))


def _part(rank: int, part: FleetPart, plan: Planned, scenario: Scenario) -> Option:
    deployment = part.candidate.deployment
    way = part.placement
    if part.traffic is not None:
        scenario = scenario.model_copy(update={"traffic": part.traffic})
    limits = scenario.traffic.part
    whole = plan.found.purchase.placement
    used = part.num_replicas * deployment.accelerators_per_replica
    machine = machine_of(way, part.num_units, part.candidate.power_limit_w)
    usd_per_hour = part.num_units * way.usd_per_unit_hour
    if part.is_shared:
        machine = replace(machine, num_accelerators=used, num_nodes=1)
        usd_per_hour = whole.usd_per_unit_hour * used / whole.accelerators_per_unit
    settings = launch_settings(part.candidate, scenario, part.role)
    return Option(
        rank=rank,
        role=part.role,
        machine=machine,
        layout=layout_of(part.candidate, part.num_replicas, settings.max_model_len, scenario.constraints),
        offer=offer_of(way.price, scenario.as_of),
        bill=machines_bill(way.price, usd_per_hour * plan.found.purchase.drawn_fraction),
        performance=None,
        launch=launch_of(part.candidate, scenario, machine, part.role),
        levers=levers_of(part.candidate, scenario),
        max_prompt_tokens=limits.to_tokens if limits else None,
        share_fraction=part.share_fraction,
        explanation=Explanation(
            memory_bytes=memory_of(part.replica),
            kv_capacity_tokens=part.replica.memory.kv_capacity_tokens,
            basis_notes=tuple(sorted(part.replica.transferred_operators)),
        ),
    )


def simulate_args(plan: Planned, scenario: Scenario) -> tuple[str, ...]:
    """Return options of `advisor simulate serve` that show a planning point again, to the last digit.

    Equal replicas are simulated as one with its share of the load, for as many seeds as the planning point took.
    """
    found = plan.found
    traffic = scenario.traffic
    first = found.candidate
    replicas = found.purchase.num_replicas
    by_length = found.fleet is not None and found.fleet.lever == BY_LENGTH.name
    if found.fleet is not None and by_length:
        first = found.fleet.parts[0].candidate
        workers = ["--replicas", str(found.fleet.parts[0].num_replicas)]
        workers += ["--long-prompts", _long(found.fleet.parts, scenario)]
    elif found.fleet is not None and found.fleet.lever == OWN_KINDS:
        first = found.fleet.parts[0].candidate
        workers = ["--replicas", str(found.fleet.parts[0].num_replicas)]
        workers += ["--other-replicas", ",".join(_others(found.fleet.parts, scenario))]
    else:
        workers = ["--replicas", str(replicas), "--router", "share"]
        if found.fleet is not None:
            workers = _pool_args(found)
        elif traffic.conversations is not None:
            workers = ["--replicas", str(replicas)]
    named = first.deployment.model
    model = named.checkpoint or named.repository or scenario.model
    args = ["--model", model, "--engine", first.deployment.engine.id]
    if release := first.deployment.engine.release:
        args += ["--engine-version", release]
    args += _option_words(
        _worker(first, scenario) | (_budget(found) if workers[0] == "--prefill-workers" else {})
    )
    args += [*workers, *_load_args(traffic)]
    if scenario.adapters is not None:
        adapters = scenario.adapters
        args += ["--adapters", str(adapters.count), "--adapter-rank", str(adapters.rank)]
        args += ["--adapter-slots", str(adapters.slots)]
    if plan.point is not None and plan.point.seeds:
        args += ["--requests", str(plan.point.num_requests)]
        args += ["--seeds", ",".join(map(str, plan.point.seeds))]
    if plan.demand.kind == "clients":
        ramp_s = plan.load * found.capacity.spacing_s
        return (*args, "--concurrency", str(round(plan.demand.size)), "--ramp", f"{ramp_s!r}s")
    return (*args, "--rate", repr(_whole_rate(plan, replicas)))


def _whole_rate(plan: Planned, num_replicas: int) -> float:
    """The rate of all replicas of which each gets exactly the planned load, also in floating point [1/s]."""
    if plan.demand.kind == "rate":
        return plan.demand.size
    rate = plan.load * num_replicas
    for candidate in (rate, math.nextafter(rate, 0.0), math.nextafter(rate, math.inf)):
        if candidate / num_replicas == plan.load:
            return candidate
    return rate


def _option_words(options: dict[str, str]) -> list[str]:
    return [
        word
        for name, value in options.items()
        for word in (
            (f"--no-{name}",) if value == "off" else (f"--{name}",) if value == "on" else (f"--{name}", value)
        )
    ]


def _worker(candidate: Candidate, scenario: Scenario) -> dict[str, str]:
    """Options of one replica, applied levers included; on and off where they have no value."""
    deployment = candidate.deployment
    guess = candidate.speculation
    ranks = (
        deployment.data_parallel if deployment.engine.token_budget_of == "rank" else 1
    )  # each server gets its own
    found = {
        "gpu": deployment.accelerator.id,
        "tp": str(deployment.tensor_parallel),
        "pp": str(deployment.pipeline_parallel),
        "dp": str(deployment.data_parallel),
        "ep": str(deployment.expert_parallel),
        "precision": deployment.weight_dtype,
        "kv-precision": deployment.kv_dtype,
        "max-num-seqs": str(candidate.max_num_seqs),
        "max-num-batched-tokens": str(ranks * candidate.max_num_batched_tokens),
    }
    if candidate.memory_fraction is not None:
        found["gpu-memory-utilization"] = f"{candidate.memory_fraction:g}"
    if candidate.power_limit_w:
        found["power-cap"] = f"{candidate.power_limit_w:g}W"
    if scenario.traffic.reused_input_tokens:
        found["prefix-caching"] = "on" if candidate.caches_prefixes else "off"
    if guess is not None:
        found["speculative"] = guess.name
        found["draft-tokens"] = str(guess.speculation.draft_tokens)
        found["acceptance"] = f"{guess.speculation.acceptance:g}"
    return found


def _long(parts: tuple[FleetPart, ...], scenario: Scenario) -> str:
    """The replicas for long prompts, as `--long-prompts` takes them."""
    short, long = parts
    assert long.traffic is not None
    assert long.traffic.part is not None
    guesses = short.candidate.speculation is not None and long.candidate.speculation is None
    found = {
        "from": str(long.traffic.part.from_tokens),
        "replicas": str(long.num_replicas),
        **_worker(long.candidate, scenario),
        **({"speculative": "none"} if guesses else {}),
    }
    return ":".join(f"{name}={value}" for name, value in found.items())


def _others(parts: tuple[FleetPart, ...], scenario: Scenario) -> list[str]:
    """The replicas of the second and further kinds, as `--other-replicas` takes them."""
    return [
        ":".join(
            f"{name}={value}"
            for name, value in {
                "share": repr(part.share_fraction),
                "replicas": str(part.num_replicas),
                **_worker(part.candidate, scenario),
            }.items()
        )
        for part in parts[1:]
    ]


def _budget(found: Found) -> dict[str, str]:
    """Tokens of one step where there are pools: of a prefill worker, per attention rank."""
    if found.fleet is None:
        return {}
    first = found.fleet.parts[0].candidate
    return {"max-num-batched-tokens": str(first.max_num_batched_tokens // first.deployment.data_parallel)}


def _pool_args(found: Found) -> list[str]:
    """Return the options for the workers of both pools; a prefill worker has those in which it differs from a decode
    worker."""
    assert found.fleet is not None
    first, second = found.fleet.parts
    prompts = first.candidate.deployment
    answers = second.candidate.deployment
    args = ["--prefill-workers", str(first.num_replicas), "--decode-workers", str(second.num_replicas)]
    if prompts.accelerator.id != answers.accelerator.id:
        args += ["--prefill-gpu", prompts.accelerator.id]
    if prompts.tensor_parallel != answers.tensor_parallel or prompts.data_parallel != answers.data_parallel:
        args += ["--prefill-tp", str(prompts.tensor_parallel)]
    return args


def _load_args(traffic: Traffic) -> list[str]:
    """The requests: a trace, a profile or token counts; turns of conversations as they were typed."""
    talk = traffic.conversations
    own, common = (talk.turn, talk.common_tokens) if talk else (traffic, traffic.shared_prefix_tokens)
    if own.trace is not None:
        args = ["--trace", str(own.trace)]
    elif own.profile != "custom":
        args = ["--profile", own.profile]
    else:
        tokens = own.mean_input_tokens + (common if talk else 0)
        args = ["--input-tokens", str(tokens), "--output-tokens", str(own.mean_output_tokens)]
    if common:
        args += ["--shared-prefix-tokens", str(common)]
        args += [] if talk else ["--shared-prefixes", str(traffic.shared_prefixes)]
    if talk:
        args += ["--sessions", f"{talk.mean_turns:g}", "--turn-gap", f"{talk.gap_s:g}s"]
    return args

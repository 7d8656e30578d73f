"""Levers: changes to a deployment other than hardware, layout and weights, each only where it can act."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from advisor.catalog.architectures import ClassLimit, class_lacks, class_of, refuses_cache
from advisor.catalog.dtypes import cached_value_bytes
from advisor.catalog.engines import all_engines, quality_note, support
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.published import published_heads
from advisor.catalog.schema import Engine, Model
from advisor.decide import power
from advisor.decide.candidates import Candidate, cache_format, fit_memory, slot_variants
from advisor.decide.load_runs import spread_of_contexts
from advisor.decide.replicas import ReplicaCase, plain_replica
from advisor.decide.scenario import Scenario
from advisor.simulator.graph.model import has_state
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.replica_model import EngineSettings, ReplicaModel
from advisor.simulator.speculation import chosen_speculation, speculative_replica
from advisor.simulator.workloads.lora import Adapters, lora_replica

Kind = Literal["prefix", "cache", "speculation", "fleet", "power"]


@dataclass(frozen=True, slots=True)
class Lever:
    """Something to pull, and as what the support matrix knows it."""

    name: str
    kind: Kind
    feature: str
    words: str
    formats: tuple[str, ...] = ()
    """Number formats of the KV cache, as engines call them."""

    @property
    def costs_quality(self) -> bool:
        """Whether answers change; guesses are verified, so that speculation changes nothing."""
        return self.kind == "cache"

    def is_applied(self, candidate: Candidate) -> bool:
        """Whether a candidate has it. Prompts that begin alike are reused where the engine can, so it always counts."""
        guess = candidate.speculation
        return {
            "prefix": True,
            "cache": candidate.deployment.kv_dtype in self.formats,
            "speculation": guess is not None and guess.name == self.name,
            "fleet": False,
            "power": candidate.full_power is not None,
        }[self.kind]


LEVERS: Final = {
    lever.name: lever
    for lever in (
        Lever("prefix", "prefix", "feature:prefix_caching", "keep the cache of prompts that begin alike"),
        Lever("kv-fp8", "cache", "kv:fp8", "keep the cache in fp8", ("fp8",)),
        Lever("kv-int8", "cache", "kv:int8", "keep the cache in 8-bit integers", ("int8", "q8_0")),
        Lever("kv-nvfp4", "cache", "kv:nvfp4", "keep the cache in nvfp4", ("nvfp4",)),
        Lever("mtp", "speculation", "feature:speculative_mtp", "guess ahead with the model's own module"),
        Lever("eagle", "speculation", "feature:speculative_eagle", "guess ahead with an EAGLE head"),
        Lever("ngram", "speculation", "feature:speculative_ngram", "guess ahead from n-grams of the text"),
        Lever("pools", "fleet", "feature:disaggregation", "disaggregate prefill and decode"),
        Lever("split", "fleet", "", "serve long prompts apart from short ones"),
        Lever(power.NAME, "power", "", "hold boards to less power than they are rated for"),
    )
}
APART: Final = LEVERS["pools"]
BY_LENGTH: Final = LEVERS["split"]
UNLIKE: Final = "feature:disaggregation_unlike"
"""Two pools on unlike accelerators of one architecture."""
_DRAFT: Final = Lever(
    "draft:MODEL", "speculation", "feature:speculative_draft_model", "guess ahead with a small model"
)
NAMES: Final = (*LEVERS, _DRAFT.name, "speculation")


def find_lever(name: str) -> Lever:
    """The lever with a name, draft:MODEL and power-cap:280W included. Source: own table."""
    if name in LEVERS:
        return LEVERS[name]
    return replace(LEVERS[power.NAME] if name.startswith(power.NAME) else _DRAFT, name=name)


def allowed_levers(scenario: Scenario, model: Model) -> tuple[str, ...]:
    """Return the names of the levers that the search may apply. `auto` applies prefix caching, which costs nothing;
    a list of other levers adds it."""
    if scenario.levers in (("auto",), ("none",)):
        return ("prefix",) if scenario.levers == ("auto",) else ()
    usual = "mtp" if model.mtp_layers else "eagle"
    names = (usual if name == "speculation" else name for name in scenario.levers)
    return tuple(dict.fromkeys(("prefix", *names)))


def at_full_power(scenario: Scenario) -> Scenario | None:
    """The scenario with its boards at full power; None where the search may not hold them to less."""
    free = tuple(name for name in scenario.levers if find_lever(name).kind != "power")
    return scenario.model_copy(update={"levers": free}) if len(free) < len(scenario.levers) else None


def to_try(scenario: Scenario, candidate: Candidate) -> tuple[Lever, ...]:
    """Return the levers that `auto` tries on the deployments that it shows: smaller formats of the KV cache, and
    speculative decoding."""
    if scenario.levers != ("auto",):
        return ()
    usual = "mtp" if candidate.deployment.model.mtp_layers else "eagle"
    return tuple(LEVERS[name] for name in ("kv-fp8", "kv-int8", usual))


def asked_levers(scenario: Scenario, candidate: Candidate) -> tuple[Lever, ...]:
    """Return the levers of cache and speculation that the question names and that a candidate does not have."""
    named = () if scenario.levers == ("auto",) else allowed_levers(scenario, candidate.deployment.model)
    found = (find_lever(name) for name in named)
    return tuple(
        one for one in found if one.kind in ("cache", "speculation") and not one.is_applied(candidate)
    )


def variants(scenario: Scenario, model: Model, candidate: Candidate) -> Iterator[Candidate]:
    """A candidate without and with each of the levers that the search may pull, as far as they can act on it."""
    names = allowed_levers(scenario, model)
    reuses = "prefix" in names or not scenario.traffic.reused_input_tokens
    if scenario.traffic.conversations and not candidate.deployment.engine.flags.sticky_router:
        reuses = False  # which replica gets the next turn is anybody's guess
    kept = [_with_prefixes(candidate, is_asked=reuses)]
    for kind in ("cache", "speculation"):
        for one in tuple(kept):
            for name in names:
                if find_lever(name).kind == kind:
                    try:
                        kept.append(with_lever(one, find_lever(name), scenario))
                    except InfeasibleError:
                        continue
    kept += [more for one in tuple(kept) for more in slot_variants(one, scenario)]
    yield from kept
    for name in names:
        if find_lever(name).kind == "power":
            with contextlib.suppress(InfeasibleError):
                yield from (limited for one in kept for limited in under_limits(one, name))


def under_limits(candidate: Candidate, name: str = power.NAME) -> list[Candidate]:
    """The candidate held to each power limit that a lever stands for, the highest first.

    Raises: InfeasibleError: its boards take none, or not this one.
    Source: recommend.power.
    """
    chip = candidate.deployment.accelerator
    return [
        replace(
            candidate,
            deployment=replace(candidate.deployment, accelerator=power.with_power_limit(chip, limit_w)),
            full_power=chip,
        )
        for limit_w in power.limits_of(chip, name)
    ]


def check_applied(scenario: Scenario, model: Model, candidates: Sequence[Candidate]) -> None:
    """Refuse a named lever that acts on no candidate at all.

    Raises: InfeasibleError: as the first candidate refuses it.
    """
    for one in map(find_lever, allowed_levers(scenario, model)):
        if one is APART:
            _check_pools(candidates)
        elif one.kind == "fleet":
            continue  # a router in front, which any engine may have
        elif candidates and not any(one.is_applied(candidate) for candidate in candidates):
            if one.kind == "power":
                under_limits(candidates[0], one.name)
            else:
                with_lever(candidates[0], one, scenario)


def serves_pools(engine: Engine, architecture: str) -> bool:
    """Whether an engine is known to compute prompts apart from answers, and how it is told."""
    told = engine.flags.pools or engine.flags.yaml_pools
    return bool(told) and support(engine.id, architecture, APART.feature).is_usable


def _check_pools(candidates: Sequence[Candidate]) -> None:
    """Refuse pools where no engine of the candidates is known to have them, with one that is."""
    asked = [(each.deployment.engine, each.deployment.accelerator) for each in candidates]
    if not asked or any(serves_pools(engine, chip.architecture) for engine, chip in asked):
        return
    chips = {chip.architecture for _, chip in asked}
    others = [each.id for each in all_engines() if any(serves_pools(each, name) for name in chips)]
    names = ", ".join(dict.fromkeys(chip.id for _, chip in asked))
    raise InfeasibleError(
        f"no engine that may be used is known to {APART.words} on {names}",
        why="its sources do not say so",
        fix=f"--engine {others[0]}" if others else "--gpu h100-sxm --engine vllm, or --levers none",
    )


def with_lever(candidate: Candidate, lever: Lever, scenario: Scenario) -> Candidate:
    """The candidate with a lever of the cache or of speculation.

    Raises: InfeasibleError: its engine, chip or model lacks it, or nothing fits any more; with the nearest that works.
    Source: catalog.engines; engine records; simulator.speculation.
    """
    deployment = candidate.deployment
    traffic = scenario.traffic
    engine = deployment.engine
    chip = deployment.accelerator
    if lever.kind == "cache":
        kept = (name for name in lever.formats if name in engine.kv_dtypes)
        found = next((name for name in kept if cache_format(name, deployment.model, engine, chip)), "")
        if not found or not support(engine.id, chip.architecture, lever.feature).is_usable:
            is_refused = any(refuses_cache(engine, deployment.model, chip, name) for name in lever.formats)
            raise InfeasibleError(
                f"{engine.name} does not {lever.words} on {chip.id}",
                why=f"no kernel of its attention for {class_of(deployment.model)} reads that there"
                if is_refused
                else f"cache formats that it has: {', '.join(engine.kv_dtypes)}",
                fix=_nearest_cache(candidate),
            )
        if cached_value_bytes(found) >= cached_value_bytes(deployment.kv_dtype):
            raise InfeasibleError(f"the cache is in {deployment.kv_dtype} already")
        changed = replace(deployment, kv_dtype=found)
        fits = fit_memory(changed, traffic.mean_context_tokens, float(traffic.longest_request_tokens))
        fraction = fits.memory_fraction
        return replace(candidate, deployment=changed, memory=fits.memory, memory_fraction=fraction)
    try:
        return _guessing(candidate, lever, scenario)
    except InfeasibleError as error:
        fix = error.fix or _nearest_guess(candidate, scenario)
        raise InfeasibleError(
            error.what, why=error.why, fix=fix.replace("--speculative", "--levers")
        ) from None


def _guessing(candidate: Candidate, lever: Lever, scenario: Scenario) -> Candidate:
    """The candidate with a lever of speculation.

    Raises: InfeasibleError: it lacks it; with a fix where the lever itself may be told otherwise.
    """
    deployment = candidate.deployment
    told = lever.name.partition(":")[0]
    engine = deployment.engine
    chip = deployment.accelerator
    if not support(engine.id, chip.architecture, lever.feature).is_usable:
        raise InfeasibleError(
            f"{engine.name} is not known to {lever.words} on {chip.id}",
            why="its sources do not say so",
        )
    if told not in engine.flags.speculation and told not in engine.flags.yaml_speculation:
        raise InfeasibleError(f"no option of {engine.name} is known that makes it {lever.words}")
    if deployment.pipeline_parallel > 1 and not engine.guesses_in_stages:
        raise InfeasibleError(
            f"{engine.name} does not guess ahead over pipeline stages",
            why="its release stops at both together",
            fix="--levers none",
        )
    needs: Mapping[str, ClassLimit] = {"eagle": "eagle", "mtp": "mtp"}
    if told in needs and (lack := class_lacks(engine, deployment.model, needs[told])):
        raise InfeasibleError(lack)
    try:
        chosen = chosen_speculation(lever.name, deployment, acceptance=scenario.acceptance)
    except AdvisorError as error:
        fix = "" if lever.name == "mtp" else error.fix  # the model lacks it
        raise InfeasibleError(error.what, why=error.why, fix=fix) from None
    return replace(candidate, speculation=chosen)


def _nearest_guess(candidate: Candidate, scenario: Scenario) -> str:
    """A way of guessing ahead that a candidate has."""
    for each in LEVERS.values():
        if each.kind == "speculation":
            with contextlib.suppress(InfeasibleError):
                _guessing(candidate, each, scenario)
                return f"--levers {each.name}"
    return "another --engine, or --levers none"


def _with_prefixes(candidate: Candidate, *, is_asked: bool) -> Candidate:
    """The candidate with its prefix cache as it will be started: the engine's own, or on where it is known to have
    one; off where reuse is not to count."""
    deployment = candidate.deployment
    engine = deployment.engine
    architecture = deployment.accelerator.architecture
    known = support(engine.id, architecture, LEVERS["prefix"].feature)
    caches = known.verdict != "no" if engine.prefix_caching else known.is_usable
    return replace(candidate, caches_prefixes=is_asked and caches and not has_state(deployment.model))


def _nearest_cache(candidate: Candidate) -> str:
    """Return the lever of a smaller cache that a candidate has, as an option."""
    run = candidate.deployment
    for each in LEVERS.values():
        usable = support(run.engine.id, run.accelerator.architecture, each.feature).is_usable
        names = [name for name in each.formats if name in run.engine.kv_dtypes]
        if usable and any(cache_format(name, run.model, run.engine, run.accelerator) for name in names):
            return f"--levers {each.name}"
    return "--levers none"


def replica_of(
    candidate: Candidate, scenario: Scenario, library: OperatorLibrary | None = None
) -> ReplicaModel:
    """A candidate's replica for the traffic of a scenario, with its levers applied and its adapters loaded.

    Assumes: an adapter costs each token what it costs a step, also where a step yields several.
    Raises: InfeasibleError: it does not fit.
    """
    traffic = scenario.traffic
    adapters = scenario.adapters
    settings = None
    if candidate.memory_fraction is not None:
        settings = EngineSettings(memory_fraction=candidate.memory_fraction)
    if candidate.has_own_limits:
        deployment = candidate.deployment
        ranks = deployment.data_parallel if deployment.engine.token_budget_of == "rank" else 1
        num_tokens = ranks * candidate.max_num_batched_tokens
        settings = EngineSettings(candidate.max_num_seqs, num_tokens, candidate.memory_fraction)
    replica = plain_replica(
        ReplicaCase(
            candidate.deployment,
            settings,
            traffic.mean_input_tokens,
            traffic.mean_output_tokens,
            spread_of_contexts(traffic),
            traffic.longest_request_tokens,
            library=library,
        )
    )
    replica = replace(replica, policy=replace(replica.policy, prefix_caching=candidate.caches_prefixes))
    if candidate.speculation is not None:
        replica = speculative_replica(
            replica,
            candidate.speculation.speculation,
            mean_input_tokens=traffic.mean_input_tokens,
            mean_output_tokens=traffic.mean_output_tokens,
        )
    if adapters is not None:
        engine = candidate.deployment.engine
        architecture = candidate.deployment.accelerator.architecture
        told = engine.flags.adapters or engine.flags.yaml_adapters
        if not told or not support(engine.id, architecture, "feature:lora_adapters").is_usable:
            raise InfeasibleError(f"{engine.name} is not known to serve adapters on {architecture}")
        if lack := class_lacks(engine, candidate.deployment.model, "adapters"):
            raise InfeasibleError(
                lack, fix="another --engine, or merge each adapter into a checkpoint of its own"
            )
        if engine.most_adapter_rank and adapters.rank > engine.most_adapter_rank:
            raise InfeasibleError(f"{engine.name} takes adapters of rank {engine.most_adapter_rank} at most")
        replica = lora_replica(replica, Adapters(adapters.count, adapters.rank, adapters.slots))
    return replica


def lever_note(one: Lever, candidate: Candidate) -> str:
    """Return what a lever costs besides money: quality, or a draft head that the user must find or train.

    Source: data/quality.toml; catalog.published; simulator.speculation.
    """
    chosen = candidate.speculation
    if one.kind == "cache" or chosen is None:
        return quality_note(candidate.deployment.model, one.name)
    needs = ""
    if chosen.speculation.method == "eagle":
        head = eagle_head(candidate.deployment.model, candidate.deployment.engine.id)
        needs = f", with {head}" if head else "; its head must be found or trained"
    part = 100.0 * chosen.speculation.acceptance
    return f"assumes that {part:.0f} % of draft tokens are accepted{needs}"


def lacks_head(candidate: Candidate) -> bool:
    """Whether a candidate uses speculative decoding with a draft head of which no publisher is known."""
    guess = candidate.speculation
    deployment = candidate.deployment
    if guess is None or guess.speculation.method != "eagle":
        return False
    return not eagle_head(deployment.model, deployment.engine.id)


def eagle_head(model: Model, engine: str) -> str:
    """A published EAGLE head of a model that an engine loads; empty where no source names one."""
    heads = published_heads(model, engine)
    return heads[0].repository if heads else ""

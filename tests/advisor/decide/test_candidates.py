"""Candidates that the search considers: formats, layouts, one request in the cache, and the reason where there is
none."""

from dataclasses import replace

import pytest

from advisor.catalog import accelerators, engines, models
from advisor.catalog.engines import weight_formats
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.launch import LaunchSettings, launch
from advisor.decide.candidates import Candidate, candidates_of, usable_precisions
from advisor.decide.reason import NoCacheFormat, NoKernels
from advisor.decide.scenario import Constraints
from advisor.simulator.deployment import named_deployment
from advisor.simulator.layout import check_layout

ENGINES = Constraints().engines_of(engines.all_engines())


def find_candidates(
    model: str,
    gpu: str,
    *,
    engine: str = "",
    precisions: tuple[str, ...] = (),
    kv_dtype: str = "",
    longest: float = 2000.0,
    most: int = 64,
) -> tuple[list[Candidate], str]:
    return candidates_of(
        accelerators.by_id(gpu),
        models.by_id(model),
        [e for e in ENGINES if engine in ("", e.id)],
        precisions=precisions,
        kv_dtype=kv_dtype,
        mean_context_tokens=1000.0,
        max_context_tokens=longest,
        max_accelerators=most,
    )


def test_layouts_of_a_dense_model_are_tensor_parallel() -> None:
    candidates, reason = find_candidates("llama-3.1-8b", "h100-sxm", engine="vllm")
    assert reason is None
    layouts = {
        (d.tensor_parallel, d.pipeline_parallel, d.data_parallel, d.expert_parallel)
        for d in (candidate.deployment for candidate in candidates)
    }
    assert layouts == {(1, 1, 1, 1), (2, 1, 1, 1), (4, 1, 1, 1), (8, 1, 1, 1)}
    assert {candidate.deployment.weight_dtype for candidate in candidates} == {"bf16", "fp8"}


def test_layouts_of_a_mixture_spread_experts_and_attention() -> None:
    candidates, _ = find_candidates("qwen3-30b-a3b", "h100-sxm", engine="vllm", precisions=("bf16",))
    layouts = {
        (d.tensor_parallel, d.data_parallel, d.expert_parallel)
        for d in (candidate.deployment for candidate in candidates)
    }
    assert {(8, 1, 1), (8, 1, 8), (1, 8, 8)} <= layouts


def test_pipelines_come_only_where_no_domain_holds_the_model() -> None:
    small, _ = find_candidates("llama-3.1-70b", "h100-sxm", engine="vllm")
    large, _ = find_candidates("llama-3.1-405b", "a100-sxm-80gb", engine="vllm", precisions=("bf16",))
    assert {candidate.deployment.pipeline_parallel for candidate in small} == {1}
    assert {candidate.deployment.pipeline_parallel for candidate in large} == {2}


@pytest.mark.parametrize("gpu", ["rtx-3090", "a100-pcie-80gb", "h200-nvl"])
@pytest.mark.parametrize("model", ["qwen3-32b", "llama-3.1-405b"])
def test_a_bridge_takes_no_layout_from_a_card(gpu: str, model: str) -> None:
    bridged = accelerators.by_id(gpu)
    found = []
    for chip in (bridged, bridged.model_copy(update={"scale_up": None})):
        candidates, _ = candidates_of(
            chip,
            models.by_id(model),
            [engine for engine in ENGINES if engine.id == "vllm"],
            mean_context_tokens=1000.0,
            max_context_tokens=2000.0,
            max_accelerators=16,
        )
        runs = [one.deployment for one in candidates]
        found.append({(d.weight_dtype, d.tensor_parallel, d.pipeline_parallel) for d in runs})
    assert found[1] <= found[0]
    if (gpu, model) == ("rtx-3090", "qwen3-32b"):
        assert {("bf16", 4, 1), ("bf16", 2, 2)} <= found[
            0
        ]  # sums over PCIe, or over bridges and stages between them


def test_a_replica_stays_within_the_accelerators_allowed() -> None:
    candidates, _ = find_candidates("llama-3.1-8b", "h100-sxm", most=2)
    assert {candidate.deployment.accelerators_per_replica for candidate in candidates} == {1, 2}
    assert find_candidates("llama-3.1-405b", "h100-sxm", most=2)[0] == []


def test_every_candidate_holds_its_weights_and_one_request_per_rank() -> None:
    candidates, _ = find_candidates("deepseek-r1", "h200-sxm", longest=50_000.0)
    assert candidates
    for candidate in candidates:
        memory = candidate.memory
        deployment = candidate.deployment
        assert memory.weight_bytes < memory.total_bytes
        assert memory.kv_capacity_tokens / deployment.data_parallel >= 50_000
        assert deployment.engine.id in deployment.accelerator.engines


@pytest.mark.parametrize(
    ("model", "gpu", "options", "words"),
    [
        ("llama-3.1-405b", "rtx-4090", {"most": 8}, "exceed"),
        (
            "llama-3.1-8b",
            "l4",
            {"precisions": ("bf16",), "longest": 5e8},
            "beyond its native context window",
        ),
        ("llama-3.1-8b", "wse3", {}, ""),
        ("llama-3.1-8b", "h100-sxm", {"engine": "mlx"}, "sglang, tensorrt-llm, llama.cpp only, not with mlx"),
        ("llama-3.1-8b", "h100-sxm", {"engine": "vllm", "precisions": ("q8_0",)}, "has no kernels for q8_0"),
    ],
)
def test_reasons(model: str, gpu: str, options: dict, words: str) -> None:  # type: ignore[type-arg]
    candidates, reason = find_candidates(model, gpu, **options)
    assert candidates == []
    assert reason
    assert words in reason.text


def test_formats_considered_unasked_cost_no_quality() -> None:
    llama = models.by_id("llama-3.1-8b")
    oss = models.by_id("gpt-oss-120b")
    vllm = engines.by_id("vllm")
    h100 = accelerators.by_id("h100-sxm")
    a100 = accelerators.by_id("a100-sxm-80gb")
    assert usable_precisions(llama, h100, vllm, ()) == ("bf16", "fp8")
    assert usable_precisions(llama, a100, vllm, ()) == ("bf16", "fp8")  # no fp8 unit, but kernels that widen
    mi210 = accelerators.by_id("mi210")
    assert "fp8" not in usable_precisions(llama, mi210, vllm, ())  # neither
    assert usable_precisions(llama, mi210, vllm, ("fp8",)) == ("fp8",)  # unless asked for
    assert usable_precisions(llama, h100, vllm, ("int4", "q8_0")) == ("int4",)
    assert usable_precisions(oss, h100, vllm, ()) == ("mxfp4",)  # more bits than published bring nothing


@pytest.mark.parametrize("model", ["qwen3-30b-a3b", "llama-3.1-70b"])
@pytest.mark.parametrize("gpu", ["h100-sxm", "rtx-3090", "mi300x"])
def test_every_degree_of_a_layout_is_in_the_command_that_starts_it(model: str, gpu: str) -> None:
    found, _ = find_candidates(model, gpu, precisions=("bf16", "q4_k_m", "int4", "fp8"))
    layouts = {
        (one.engine.id, one.tensor_parallel, one.pipeline_parallel, one.data_parallel, one.expert_parallel)
        for one in (candidate.deployment for candidate in found)
    }
    assert {engine for engine, *_ in layouts} >= {"vllm"}
    for name_of_engine, tp, pp, dp, ep in layouts:
        engine = engines.by_id(name_of_engine)
        settings = LaunchSettings(tp=tp, pp=pp, dp=dp, ep=ep)
        started = launch(engine, "x/y", settings)
        for name, degree in (("tp", tp), ("pp", pp), ("dp", dp), ("ep", ep)):
            if degree == 1 or (name == "pp" and engine.holds_layers_in_turn):
                continue
            single = launch(engine, "x/y", replace(settings, **{name: 1}))
            assert (started.argv, started.config) != (single.argv, single.config), (engine.id, name)
        assert not (engine.holds_layers_in_turn and tp > 1 and pp > 1)


def test_layers_that_accelerators_hold_in_turn_are_not_split_too() -> None:
    deployment = named_deployment(
        "qwen3-32b", "rtx-3090", "llama.cpp", tensor_parallel=2, pipeline_parallel=2
    )
    with pytest.raises(InfeasibleError, match="together"):
        check_layout(deployment)


@pytest.mark.parametrize("gpu", ["h100-sxm", "rtx-4090", "mi300x", "m3-ultra"])
@pytest.mark.parametrize("kv_dtype", ["bf16", "fp8", "int8", "nvfp4"])
def test_every_candidate_keeps_its_cache_in_the_format_that_is_named(gpu: str, kv_dtype: str) -> None:
    """Engines that keep no such cache drop out; integers have the engine's own name."""
    alike = {"bf16": ("bf16", "fp16"), "int8": ("int8", "q8_0")}.get(kv_dtype, (kv_dtype,))
    candidates, reason = find_candidates("llama-3.1-8b", gpu, kv_dtype=kv_dtype)
    assert {one.deployment.kv_dtype for one in candidates} <= set(alike)
    for one in candidates:
        assert one.deployment.engine.kv_dtypes == () or one.deployment.kv_dtype in (
            *one.deployment.engine.kv_dtypes,
            "bf16",
        )
    assert candidates or isinstance(reason, NoCacheFormat)
    assert kv_dtype != "bf16" or candidates


@pytest.mark.parametrize(
    ("model", "gpu"), [("deepseek-v3", "l40s"), ("minimax-m2", "h200-sxm"), ("deepseek-v3", "m3-ultra")]
)
def test_an_engine_without_the_checkpoints_format_names_one_that_it_has(model: str, gpu: str) -> None:
    found, reason = find_candidates(model, gpu, engine="llama.cpp")
    assert found == []
    assert isinstance(reason, NoKernels)
    assert reason.nearest in reason.text
    served = usable_precisions(
        models.by_id(model), accelerators.by_id(gpu), engines.by_id("llama.cpp"), (reason.nearest,)
    )
    assert served == (reason.nearest,)


def test_a_release_before_a_format_came_does_not_serve_it() -> None:
    """SGLang refuses NVFP4 below compute capability 10.0 until 0.5.12: modelopt_quant.py, get_min_capability."""
    sglang = engines.by_id("sglang")
    for chip, old in (("h100-sxm", False), ("a100-sxm-80gb", False), ("b200-sxm", True)):
        for release, serves in (("0.5.12", old), ("0.5.13", True), ("", True)):
            assert ("nvfp4" in weight_formats(sglang, accelerators.by_id(chip), release)) == serves


@pytest.mark.parametrize("engine", ["sglang", "vllm", "tensorrt-llm"])
@pytest.mark.parametrize(
    ("model", "gpu"),
    [("deepseek-v3.2", "h100-sxm"), ("deepseek-r1", "a100-sxm-80gb"), ("kimi-k2", "h100-sxm")],
)
def test_a_latent_mixture_beyond_one_domain_is_also_spread_by_ranks_of_attention(
    engine: str, model: str, gpu: str
) -> None:
    """The layout that SGLang and vLLM recommend for it; a latent cache is repeated by tensor parallelism alone."""
    found, why = find_candidates(model, gpu, engine=engine, longest=20_000.0)
    runs = {each.deployment.data_parallel > 1: each for each in found}
    assert len(found) in (0, 2), why
    if not found:
        return
    spread = runs[True]
    assert spread.deployment.expert_parallel == spread.deployment.data_parallel > 8
    assert spread.memory.kv_capacity_tokens > runs[False].memory.kv_capacity_tokens
    has_own = engine == "sglang"
    assert (spread.memory_fraction is not None) == has_own
    settings = LaunchSettings(dp=16, ep=16, memory_fraction=spread.memory_fraction)
    assert ("--mem-fraction-static" in launch(engines.by_id(engine), "m", settings).argv) == has_own


def test_layouts_of_attention_ranks_are_for_latent_caches_alone() -> None:
    found, _ = find_candidates("qwen3-235b-a22b-2507", "a100-sxm-40gb", engine="vllm", precisions=("bf16",))
    assert found
    assert all(
        each.deployment.data_parallel == 1 for each in found if each.deployment.accelerators_per_replica > 8
    )


@pytest.mark.parametrize("gpu", ["l40s", "rtx-4090", "a100-pcie-80gb", "h100-sxm", "gb200"])
def test_layouts_of_one_machine_are_all_candidates(gpu: str) -> None:
    found, _ = find_candidates("llama-3.1-8b", gpu, engine="vllm", precisions=("bf16",))
    assert {2, 4} <= {each.deployment.tensor_parallel for each in found}

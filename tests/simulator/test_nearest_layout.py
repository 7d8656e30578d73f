"""The smallest layout that fits is found, fits, and nothing smaller does."""

import pytest

from advisor.catalog import accelerators, engines
from advisor.catalog.engines import lacks_arithmetic, weight_formats
from advisor.catalog.errors import InfeasibleError
from advisor.simulator.deployment import named_deployment
from advisor.simulator.replica_model import model_replica, nearest_layout


@pytest.mark.parametrize(
    ("model", "accelerator", "tokens", "expected"),
    [
        ("llama-3.1-70b", "h100-sxm", 2000, (2, 1)),
        ("llama-3.1-70b", "h100-sxm", 61_000, (4, 1)),
        ("deepseek-r1", "h100-sxm", 2000, (8, 2)),
    ],
)
def test_what_is_named_fits_and_half_of_it_does_not(
    model: str, accelerator: str, tokens: int, expected: tuple[int, int]
) -> None:
    found = nearest_layout(named_deployment(model, accelerator), tokens)
    assert found is not None
    assert (found.tensor_parallel, found.pipeline_parallel) == expected
    model_replica(found, mean_input_tokens=tokens - 100, mean_output_tokens=100)
    half = named_deployment(model, accelerator, tensor_parallel=expected[0] // (1 if expected[1] > 1 else 2))
    with pytest.raises(InfeasibleError):
        model_replica(half, mean_input_tokens=tokens - 100, mean_output_tokens=100)


def test_none_where_nothing_does() -> None:
    assert nearest_layout(named_deployment("deepseek-r1", "rtx-4090"), 100_000_000) is None


def test_formats_that_need_the_chips_own_arithmetic() -> None:
    h100, a100, b200 = (accelerators.by_id(name) for name in ("h100-sxm", "a100-sxm-80gb", "b200-sxm"))
    vllm, sglang, tensorrt = (engines.get(name).record for name in ("vllm", "sglang", "tensorrt-llm"))
    assert "nvfp4" in weight_formats(vllm, h100)  # unpacked
    assert "nvfp4" in weight_formats(sglang, h100)  # the same, by Marlin's kernels
    assert "nvfp4" not in weight_formats(tensorrt, h100)
    assert "nvfp4" in weight_formats(tensorrt, b200)
    assert "fp8" not in weight_formats(tensorrt, a100)
    assert "fp8" in weight_formats(sglang, a100)
    assert lacks_arithmetic(tensorrt, h100, "nvfp4")
    assert not lacks_arithmetic(tensorrt, h100, "fp8")

"""Context parallelism against Meta's published prefills, and cache policies."""

from typing import Any

import pytest

from advisor.catalog.errors import AdvisorError
from advisor.simulator.workloads.long_context import CACHE_POLICIES, kept_bytes, ring_prefill


def test_prefill_of_a_million_tokens_on_sixteen_nodes(placed: Any) -> None:
    """arXiv:2411.01783: Llama 3 405B, fp8 feed-forward, 16 nodes of eight H100s: 77 s for 1 M tokens, 3.8 s for 128 k.

    Predicted too fast: nothing of stragglers and of starting kernels is in it, which weighs on the short prompt.
    """
    deployment, library = placed("llama-3.1-405b", "h100-sxm", tensor_parallel=8, weight_dtype="fp8")
    assert 1.0 < 77.0 / ring_prefill(deployment, library, 1_000_000, 16).total_s < 1.5
    assert 1.0 < 3.8 / ring_prefill(deployment, library, 128_000, 16).total_s < 2.2


def test_more_groups_are_never_slower_on_long_prompts(placed: Any) -> None:
    deployment, library = placed("llama-3.1-70b", "h100-sxm", tensor_parallel=8)
    times = [ring_prefill(deployment, library, 131_072, degree).total_s for degree in (1, 2, 4, 8, 16)]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize(
    ("model", "gpu", "degree"),
    [
        ("llama-3.1-8b", "h100-sxm", 1),
        ("llama-3.1-70b", "h100-sxm", 8),
        ("deepseek-v3", "h200-sxm", 8),
        ("llama-3.1-8b", "l40s", 1),
        ("qwen3-32b", "mi300x", 1),
    ],
)
@pytest.mark.parametrize("tokens", [8192, 131_072])
def test_no_number_of_groups_is_faster_than_its_number(
    placed: Any, model: str, gpu: str, degree: int, tokens: int
) -> None:
    """Each round of a ring is merged into the sum of those before it, and no other cost shrinks with the groups."""
    deployment, library = placed(model, gpu, tensor_parallel=degree)
    alone_s = ring_prefill(deployment, library, tokens, 1).total_s
    gains = [alone_s / ring_prefill(deployment, library, tokens, groups).total_s for groups in (2, 4, 8, 16)]
    assert all(gain < groups for gain, groups in zip(gains, (2, 4, 8, 16), strict=True))


def test_a_slow_network_shows_the_ring_on_short_shares(placed: Any) -> None:
    deployment, library = placed("llama-2-13b", "l40s")
    exposed = [ring_prefill(deployment, library, tokens, 8).seconds["ring"] for tokens in (2048, 262_144)]
    share = [
        e / ring_prefill(deployment, library, t, 8).total_s
        for e, t in zip(exposed, (2048, 262_144), strict=True)
    ]
    assert share[0] > share[1]
    assert exposed[0] > 0


def test_attention_grows_with_the_square(placed: Any) -> None:
    deployment, library = placed("llama-3.1-8b", "h100-sxm")
    short, long = (ring_prefill(deployment, library, n, 1).seconds["attention"] for n in (65_536, 131_072))
    assert long / short == pytest.approx(4.0, rel=0.1)


def test_cache_policies_keep_what_they_say(placed: Any) -> None:
    deployment, _ = placed("llama-3.1-70b", "h100-sxm", tensor_parallel=8)
    sizes = {name: kept_bytes(deployment, policy, 131_072) for name, policy in CACHE_POLICIES.items()}
    assert sizes["full"] == pytest.approx(131_072 * 320 * 1024)
    assert sizes["fp8"] == pytest.approx(sizes["full"] / 2)
    assert sizes["int4"] < 0.27 * sizes["full"]
    assert sizes["snapkv-25"] == pytest.approx(sizes["full"] / 4, rel=1e-3)
    assert sizes["streaming-4k"] == pytest.approx(4100 * 320 * 1024)
    assert all(policy.quality for policy in CACHE_POLICIES.values())
    assert all(
        "arXiv" in p.source or "documentation" in p.source for n, p in CACHE_POLICIES.items() if n != "full"
    )


def test_too_few_tokens_are_refused(placed: Any) -> None:
    with pytest.raises(AdvisorError, match="cannot be dealt"):
        ring_prefill(*placed("llama-3.1-8b", "h100-sxm"), 4, 8)

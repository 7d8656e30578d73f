import pytest
import torch

from advisor.kernels import attention, attention_packed

# lengths, heads, key-value heads, head size
CASES = [
    ([1], 2, 1, 64),
    ([33, 5, 70], 4, 2, 64),
    ([40, 17], 2, 2, 80),
    ([65], 4, 1, 128),
    ([20, 31], 2, 1, 256),
]
LARGE = [([1000, 37, 513], 32, 8, 128), ([777, 2048], 8, 8, 64), ([300, 301], 8, 2, 256)]
OPTIONS = [
    {},
    {"causal": False},
    {"window": 1},
    {"window": 7},
    {"window": 24},
    {"window": 9, "causal": False},
    {"soft_cap": 3.0},
    {"window": 20, "soft_cap": 2.0, "sinks": True},
    {"sinks": True},
]


def with_sinks(options, num_heads, device):
    if not options.get("sinks"):
        return options
    return options | {"sinks": torch.linspace(-1.0, 2.0, num_heads, device=device)}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("case", CASES + LARGE, ids=str)
def test_matches_reference(case, options, device, on_gpu, assert_close, poison):
    if case in LARGE and not on_gpu:
        pytest.skip("large shape: GPU only")
    inputs = attention_packed.make_inputs(*case, seed=case[1], device=device, dtype=torch.float16)
    chosen = with_sinks(options, case[1], device)
    out = attention_packed.run(*inputs, out=poison(torch.empty_like(inputs[0])), **chosen)
    assert_close(out, attention_packed.reference(*inputs, **chosen), slack=2.0)


def test_bf16_matches_reference(device, assert_close):
    inputs = attention_packed.make_inputs([33, 20], 2, 1, 64, seed=3, device=device)
    out = attention_packed.run(*inputs, window=10)
    assert_close(out, attention_packed.reference(*inputs, window=10), slack=2.0)


def test_one_sequence_is_dense_attention(device, assert_close):
    q, k, v = attention.make_inputs(1, 50, 50, 4, 2, 64, seed=1, device=device, dtype=torch.float16)
    starts = torch.tensor([0, 50], dtype=torch.int32, device=device)
    out = attention_packed.run(q[0], k[0], v[0], starts)
    assert_close(out, attention.reference(q, k, v)[0], slack=2.0)


@pytest.mark.parametrize("options", [{}, {"window": 12}, {"window": 30, "causal": False}], ids=str)
def test_prompts_continue_cached_prefixes(options, device, assert_close):
    q, _, _, q_starts = attention_packed.make_inputs([5, 20], 4, 2, 64, 1, device, torch.float16)
    _, k, v, k_starts = attention_packed.make_inputs([40, 37], 4, 2, 64, 2, device, torch.float16)
    out = attention_packed.run(q, k, v, q_starts, k_starts, 20, **options)
    assert_close(out, attention_packed.reference(q, k, v, q_starts, k_starts, **options), slack=2.0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_other_sequences_are_never_seen(device):
    q, k, v, starts = attention_packed.make_inputs([20, 13, 30], 2, 1, 64, 4, device, torch.float16)
    expected = attention_packed.run(q, k, v, starts)[20:33].clone()
    for x in (k, v):
        x[:20] = float("nan")
        x[33:] = float("inf")
    assert torch.equal(attention_packed.run(q, k, v, starts)[20:33], expected)


@pytest.mark.parametrize("options", [{"window": 0}, {"soft_cap": 0.0}, {"soft_cap": -1.0}], ids=str)
def test_options_that_mean_nothing_are_refused(options, device):
    inputs = attention_packed.make_inputs([8], 2, 1, 64, 0, device)
    with pytest.raises(ValueError, match=r"window|cap"):
        attention_packed.run(*inputs, **options)


def test_counts():
    assert attention_packed.visible_pairs(3, 3, True, None) == 6
    assert attention_packed.visible_pairs(3, 3, True, 2) == 5
    assert attention_packed.visible_pairs(3, 3, False, 2) == 7
    assert attention_packed.flop([3], 2, 8, True, 2) == 4 * 5 * 2 * 8
    assert attention_packed.bytes([3], 2, 1, 8, 2) == 2 * 3 * 3 * 8 * 2

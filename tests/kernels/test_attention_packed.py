import itertools

import pytest
import torch

from advisor.kernels import attention, attention_packed, attention_tiles, attention_wgmma

# lengths, heads, key-value heads, head size
CASES = [
    ([1], 2, 1, 64),
    ([33, 5, 20], 4, 2, 64),
    ([40, 17], 2, 2, 80),
    ([65], 4, 1, 128),
    ([20, 31], 2, 1, 256),
]
LARGE = [
    ([1000, 37, 513], 32, 8, 128),
    ([777, 2048], 8, 8, 64),
    ([300, 301], 8, 2, 256),
    ([400, 0, 129], 4, 2, 96),
    ([250, 700], 4, 2, 192),
    ([10] * 100, 4, 1, 128),
]
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


@pytest.fixture(params=["triton", "wgmma"])
def run(request, device):
    """Launch function of the kernel, or of its twin with roles of warps."""
    if request.param == "triton":
        return attention_packed.run
    if not attention_wgmma.is_supported(torch.empty(1, dtype=torch.bfloat16, device=device)):
        pytest.skip(
            "roles of warps run on NVIDIA's Hopper only; attention_packed is the twin for the interpreter"
        )
    return attention_wgmma.run_packed


def with_sinks(options, num_heads, device):
    if not options.get("sinks"):
        return options
    return options | {"sinks": torch.linspace(-1.0, 2.0, num_heads, device=device)}


@pytest.mark.parametrize(
    ("case", "options"),
    [
        *itertools.product([CASES[1], *LARGE], OPTIONS),
        *((case, options) for case in (CASES[0], *CASES[2:]) for options in (OPTIONS[0], OPTIONS[-2])),
    ],
    ids=str,
)
def test_matches_reference(run, case, options, device, on_gpu, assert_close, poison):
    if case in LARGE and not on_gpu:
        pytest.skip("large shape: GPU only")
    inputs = attention_packed.make_inputs(*case, seed=case[1], device=device, dtype=torch.float16)
    chosen = with_sinks(options, case[1], device)
    out = run(*inputs, out=poison(torch.empty_like(inputs[0])), **chosen)
    assert_close(out, attention_packed.reference(*inputs, **chosen), slack=2.0)


def test_bf16_matches_reference(run, device, assert_close):
    inputs = attention_packed.make_inputs([33, 20], 2, 1, 64, seed=3, device=device)
    out = run(*inputs, window=10)
    assert_close(out, attention_packed.reference(*inputs, window=10), slack=2.0)


def test_one_sequence_is_dense_attention(run, device, assert_close):
    q, k, v = attention.make_inputs(1, 50, 50, 4, 2, 64, seed=1, device=device, dtype=torch.float16)
    starts = torch.tensor([0, 50], dtype=torch.int32, device=device)
    out = run(q[0], k[0], v[0], starts)
    assert_close(out, attention.reference(q, k, v)[0], slack=2.0)


@pytest.mark.parametrize("options", [{}, {"window": 12}, {"window": 30, "causal": False}], ids=str)
def test_prompts_continue_cached_prefixes(run, options, device, assert_close):
    q, _, _, q_starts = attention_packed.make_inputs([5, 20], 4, 2, 64, 1, device, torch.float16)
    _, k, v, k_starts = attention_packed.make_inputs([40, 37], 4, 2, 64, 2, device, torch.float16)
    out = run(q, k, v, q_starts, k_starts, 20, **options)
    assert_close(out, attention_packed.reference(q, k, v, q_starts, k_starts, **options), slack=2.0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_other_sequences_are_never_seen(run, device):
    q, k, v, starts = attention_packed.make_inputs([20, 13, 30], 2, 1, 64, 4, device, torch.float16)
    expected = run(q, k, v, starts)[20:33].clone()
    for x in (k, v):
        x[:20] = float("nan")
        x[33:] = float("inf")
    assert torch.equal(run(q, k, v, starts)[20:33], expected)


@pytest.mark.parametrize("options", [{"window": 0}, {"soft_cap": 0.0}, {"soft_cap": -1.0}], ids=str)
def test_options_that_mean_nothing_are_refused(run, options, device):
    inputs = attention_packed.make_inputs([8], 2, 1, 64, 0, device)
    with pytest.raises(ValueError, match=r"window|cap"):
        run(*inputs, **options)


@pytest.mark.parametrize("tile", [16, 32])
def test_every_query_is_in_one_tile_and_the_most_keys_go_first(tile, device):
    lengths = [33, 5, 0, 128, 70, 16] * 12
    prefixes = [0, 300, 0, 7, 128, 64] * 12
    q_starts = torch.tensor([0, *lengths], device=device).cumsum(0).to(torch.int32)
    both = [queries + prefix for queries, prefix in zip(lengths, prefixes, strict=True)]
    k_starts = torch.tensor([0, *both], device=device).cumsum(0).to(torch.int32)
    tiles, counts = attention_tiles.list_tiles(q_starts, k_starts, sum(lengths), tile)
    assert counts.tolist() == [sum(-(-length // tile) for length in lengths), 0]
    listed = tiles[: int(counts[0])].tolist()
    expected = [
        [q_start + row, length - row, prefix + row, k_start, length + prefix, sequence, row]
        for sequence, (q_start, k_start, length, prefix) in enumerate(
            zip(q_starts.tolist(), k_starts.tolist(), lengths, prefixes, strict=False)
        )
        for row in range(0, length, tile)
    ]
    # The most keys first, then sequence by sequence, then the last queries.
    expected.sort(key=lambda words: (-words[4], words[5], -words[6]))
    assert listed == expected


def test_counts():
    assert attention_packed.visible_pairs(3, 3, True, None) == 6
    assert attention_packed.visible_pairs(3, 3, True, 2) == 5
    assert attention_packed.visible_pairs(3, 3, False, 2) == 7
    assert attention_packed.flop([3], 2, 8, True, 2) == 4 * 5 * 2 * 8
    assert attention_packed.bytes([3], 2, 1, 8, 2) == 2 * 3 * 3 * 8 * 2

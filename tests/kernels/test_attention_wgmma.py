import pytest
import torch

from advisor.kernels import attention, attention_wgmma

# batch, queries, keys, heads, key-value heads, head size
SHAPES = [
    (1, 1, 1, 1, 1, 64),
    (2, 33, 33, 2, 2, 64),
    (3, 129, 257, 4, 1, 64),
    (1, 17, 40, 2, 1, 24),
    (4, 1500, 1500, 16, 4, 64),
    (1, 70, 70, 4, 2, 128),
    (1, 515, 2051, 4, 4, 128),
    (1, 3000, 3000, 40, 8, 128),
    (2, 700, 900, 4, 2, 256),
    (2, 300, 700, 4, 2, 80),
    (3, 1000, 1300, 24, 8, 96),
    (3, 1000, 1300, 24, 8, 192),
    (2, 129, 1000, 8, 8, 224),
]


@pytest.fixture
def needs_hopper(on_gpu, device):
    if not on_gpu or not attention_wgmma.is_supported(torch.empty(1, dtype=torch.bfloat16, device=device)):
        pytest.skip("roles of warps run on NVIDIA's Hopper only; attention is the twin for the interpreter")


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.usefixtures("needs_hopper")
def test_matches_reference(dtype, shape, causal, device, assert_close, poison):
    q, k, v = attention.make_inputs(*shape, seed=sum(shape), device=device, dtype=dtype)
    out = attention_wgmma.run(q, k, v, causal, poison(torch.empty_like(q)))
    assert_close(out, attention.reference(q, k, v, causal), slack=2.0)


@pytest.mark.usefixtures("needs_hopper")
def test_large_scores_do_not_overflow(device, assert_close):
    q, k, v = attention.make_inputs(1, 400, 400, 1, 1, 64, seed=1, device=device, dtype=torch.float16)
    assert_close(attention_wgmma.run(50 * q, k, v), attention.reference(50 * q, k, v), slack=2.0)


@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
@pytest.mark.usefixtures("needs_hopper")
def test_one_sequence_does_not_leak_into_another(device, head_dim):
    q, k, v = attention.make_inputs(2, 200, 233, 2, 2, head_dim, seed=2, device=device)
    alone = attention_wgmma.run(q[:1], k[:1], v[:1])
    k[1] = float("nan")
    v[1] = float("inf")
    assert torch.equal(attention_wgmma.run(q, k, v)[:1], alone)


def test_without_hopper_the_twin_runs(on_gpu, device):
    if on_gpu:
        pytest.skip("with a GPU the other tests run")
    assert attention_wgmma.fastest(torch.empty(1, dtype=torch.bfloat16, device=device)) is attention.run


@pytest.mark.parametrize("shape", [(1, 8, 8, 2, 1, 100), (1, 8, 8, 3, 2, 64), (1, 9, 8, 2, 1, 64)], ids=str)
def test_undefined_shapes_are_refused(shape, device):
    with pytest.raises(ValueError, match="not defined"):
        attention_wgmma.run(*attention.make_inputs(*shape, seed=0, device=device))


@pytest.mark.parametrize("head_dim", range(8, 257, 8))
def test_two_parts_cover_a_head_in_powers_of_two(head_dim):
    head, tail = attention_wgmma.widths(head_dim)
    assert head + tail >= head_dim
    assert head + tail <= max(64, 1 << (head_dim - 1).bit_length())
    assert all(width & (width - 1) == 0 for width in (head, tail))


def test_each_configuration_can_be_launched():
    for config in (*attention_wgmma.CONFIGS.values(), attention_wgmma.SMALL_TILES):
        assert config.groups in (2, 3)
        # A multiprocessor has 65536 registers; each role has 128 threads or is counted as so many.
        assert 128 * (config.groups * config.registers + attention_wgmma.COPY_REGISTERS) <= 65536


def test_small_tiles_are_taken_where_large_ones_leave_the_last_round_empty():
    choose = attention_wgmma.choose_config
    assert choose(64, 2048, 32, 132) is attention_wgmma.SMALL_TILES  # 3 rounds of 192 queries, or 4 of 128
    assert choose(64, 16384, 32, 132) is attention_wgmma.CONFIGS[64]
    assert choose(24, 4096, 128, 132) is attention_wgmma.CONFIGS[64]
    assert choose(192, 2048, 32, 132) is attention_wgmma.CONFIGS[256]

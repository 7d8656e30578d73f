import pytest
import torch

from advisor.kernels import ssd, ssd_wgmma

# sequences, tokens, heads, channels, groups, states
SHAPES = [
    (1, 1, 1, 64, 1, 16),
    (2, 70, 6, 24, 2, 24),
    (1, 64, 2, 64, 1, 128),
    (1, 300, 3, 128, 1, 128),
    (1, 300, 3, 64, 3, 128),
    (2, 1000, 8, 64, 1, 128),
    (3, 515, 40, 64, 2, 64),
    (7, 130, 80, 64, 1, 128),
    (9, 200, 66, 64, 1, 128),
]


@pytest.fixture
def needs_hopper(on_gpu, device):
    if not on_gpu or not ssd_wgmma.is_supported(torch.empty(1, dtype=torch.bfloat16, device=device), 64):
        pytest.skip("roles of warps run on NVIDIA's Hopper only; ssd is the twin for the interpreter")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.usefixtures("needs_hopper")
def test_matches_reference(dtype, shape, device, assert_close, poison):
    inputs = ssd.make_inputs(*shape, seed=sum(shape), device=device, dtype=dtype)
    expected_y, expected_state = ssd.reference(*inputs)
    for _ in range(3):  # the flags must be back at zero
        y, state = ssd_wgmma.run(*inputs, out=poison(torch.empty_like(inputs[0])))
        assert_close(y, expected_y, slack=2.0)
        assert_close(state, expected_state, dtype, slack=2.0)


@pytest.mark.parametrize("segments", [1, 2, 3])
@pytest.mark.usefixtures("needs_hopper")
def test_segments_start_with_their_states(segments, device, assert_close):
    inputs = ssd.make_inputs(2, 1000, 4, 64, 1, 128, 2, device, torch.float16)
    start = torch.randn((2, 4, 128, 64), device=device)
    y, state = ssd_wgmma.run(*inputs, start, num_segments=segments)
    expected_y, expected_state = ssd.reference(*inputs, start)
    assert_close(y, expected_y, slack=2.0)
    assert_close(state, expected_state, torch.float16, slack=2.0)


@pytest.mark.parametrize("segments", [2, 3])
@pytest.mark.parametrize("factor", [0.003, 0.05, 1.0])
@pytest.mark.usefixtures("needs_hopper")
def test_segments_start_with_all_that_shows_of_the_tokens_before(factor, segments, device, assert_close):
    """Heads that remember everything, the last chunks, and one or two of them."""
    x, delta, a, b, c, skip = ssd.make_inputs(2, 1500, 6, 64, 1, 128, 7, device)
    start = torch.randn((2, 6, 128, 64), device=device)
    inputs = (x, delta * factor, a, b, c, skip, start)
    y, state = ssd_wgmma.run(*inputs, num_segments=segments)
    expected_y, expected_state = ssd.reference(*inputs)
    assert_close(y, expected_y, slack=2.0)
    assert_close(state, expected_state, torch.bfloat16, slack=2.0)


def test_a_first_pass_begins_with_the_first_chunk_that_the_end_of_its_segment_remembers(device):
    """A decay of 64 powers of 2 is forgotten. A kernel of plain Triton finds where, so this runs everywhere."""
    per_chunk = torch.tensor([-1.0, -20.0, -32.0, -100.0], device=device)  # 1 sequence of 4 heads
    num_chunks = 17
    segments = 3  # and a last one, of two chunks, which has no first pass
    segment_chunks = 5
    factors = torch.randn((4 * num_chunks, 2, 64), device=device)
    factors[:, 0, -1] = per_chunk.repeat_interleave(num_chunks)
    decays, begins = ssd_wgmma._decays(
        factors, torch.empty((1, segments, 4, 1, 1), device=device), segment_chunks
    )
    assert torch.equal(decays, (per_chunk * segment_chunks).expand(1, segments, 4))
    # The chunks after it decay the first that counts by 4, 60, 64 and no powers of 2.
    assert begins.tolist() == [[[0, 1, 2, 4]] * segments]


@pytest.mark.parametrize(
    ("tasks", "programs", "chunks", "bands"),
    [
        (120, 120, 86, 120),  # one task each
        (320, 132, 64, 66),  # two programs share five tasks
        (160, 132, 128, 33),  # four share five
        (1024, 132, 64, 132),  # eight rounds, the last one three quarters full
        (133, 131, 64, 1),  # a prime number of programs
        (1, 1, 1, 1),
    ],
)
def test_programs_walk_side_by_side_where_that_costs_no_balance(tasks, programs, chunks, bands):
    assert ssd_wgmma.num_bands(tasks, programs, chunks) == bands


@pytest.mark.parametrize("factor", [0.01, 3.0, 10.0, 200.0])
@pytest.mark.usefixtures("needs_hopper")
def test_states_that_vanish_within_a_chunk_leave_no_trace(factor, device, assert_close):
    """Steps for which all, most, few and no chunks are computed from their ends."""
    x, delta, a, b, c, skip = ssd.make_inputs(1, 300, 8, 64, 1, 128, 5, device)
    inputs = (x, delta * factor, a, b, c, skip)
    y, state = ssd_wgmma.run(*inputs)
    expected_y, expected_state = ssd.reference(*inputs)
    assert_close(y, expected_y, slack=2.0)
    assert_close(state, expected_state, torch.bfloat16, slack=2.0)


@pytest.mark.usefixtures("needs_hopper")
def test_one_sequence_does_not_leak_into_another(device):
    x, delta, a, b, c, skip = ssd.make_inputs(2, 200, 6, 64, 1, 128, 3, device)
    alone, _ = ssd_wgmma.run(x[:1], delta[:1], a, b[:1], c[:1], skip)
    x[1] = float("nan")
    both, _ = ssd_wgmma.run(x, delta, a, b, c, skip)
    assert torch.equal(both[:1], alone)


def test_without_hopper_the_twin_runs(on_gpu, device):
    if on_gpu:
        pytest.skip("with a GPU the other tests run")
    assert ssd_wgmma.fastest(torch.empty(1, dtype=torch.bfloat16, device=device), 128) is ssd.run


def test_more_states_than_registers_are_refused(device):
    inputs = ssd.make_inputs(1, 8, 2, 64, 1, 136, 0, device)
    with pytest.raises(ValueError, match="128 states"):
        ssd_wgmma.run(*inputs)

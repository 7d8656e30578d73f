import pytest
import torch

from advisor.kernels import grouped_gemm

# rows, experts, n, k
SHAPES = [(1, 2, 16, 16), (40, 3, 33, 40), (33, 8, 64, 64)]
LARGE = [(3000, 8, 1000, 1024), (517, 64, 768, 512)]


@pytest.mark.parametrize("shape", SHAPES + LARGE, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_matches_reference(dtype, shape, device, on_gpu, assert_close, poison):
    if shape in LARGE and not on_gpu:
        pytest.skip("large shape: GPU only")
    a, b, sizes = grouped_gemm.make_inputs(*shape, seed=sum(shape), device=device, dtype=dtype)
    out = grouped_gemm.run(a, b, sizes, poison(a.new_empty((shape[0], shape[2]))))
    assert_close(out, grouped_gemm.reference(a, b, sizes))


@pytest.mark.parametrize("sizes", [[0, 0, 20], [20, 0, 0], [0, 1, 19], [7, 6, 7]], ids=str)
def test_empty_and_lopsided_groups(sizes, device, assert_close):
    a, b, _ = grouped_gemm.make_inputs(20, 3, 32, 32, seed=1, device=device)
    group_sizes = torch.tensor(sizes, device=device)
    assert_close(grouped_gemm.run(a, b, group_sizes), grouped_gemm.reference(a, b, group_sizes))


def test_schedule_covers_every_row_once(device):
    sizes = torch.tensor([5, 0, 16, 17, 2], device=device)
    schedule = grouped_gemm.make_schedule(sizes, num_rows=40, block_m=16)
    covered = []
    tiles = (x.tolist() for x in (schedule.expert, schedule.first_row, schedule.end_row))
    for expert, first, end in zip(*tiles, strict=True):
        if expert >= 0:
            covered += [(expert, row) for row in range(first, min(first + 16, end))]
    owners = [expert for expert, size in enumerate(sizes.tolist()) for _ in range(size)]
    assert sorted(covered, key=lambda pair: pair[1]) == list(zip(owners, range(40), strict=True))


def test_wrong_sizes_are_refused(device):
    a, b, sizes = grouped_gemm.make_inputs(4, 2, 16, 16, seed=0, device=device)
    with pytest.raises(ValueError, match="cannot multiply"):
        grouped_gemm.run(a[:, :12], b, sizes)


def test_counts():
    assert grouped_gemm.flop(2, 3, 4) == 48
    assert grouped_gemm.bytes(2, 3, 4, num_active_experts=2, element_bytes=2) == (14 + 24) * 2

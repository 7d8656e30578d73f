import pytest
import torch

from advisor.kernels import gather


@pytest.mark.parametrize("shape", [(1, 16, 1), (50, 100, 7), (20, 5000, 30)], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_rows_are_exact(dtype, shape, device, poison):
    table, index = gather.make_inputs(*shape, seed=sum(shape), device=device, dtype=dtype)
    out = gather.run(table, index, poison(table.new_empty((shape[2], shape[1]))))
    assert torch.equal(out, gather.reference(table, index))


@pytest.mark.parametrize("stride", [1, 3, 8, 64])
@pytest.mark.parametrize("numel", [1, 5000])
def test_strided_read_takes_every_nth_element(numel, stride, device):
    x = torch.randn(numel, device=device)
    expected = float(x[::stride].double().sum())
    assert abs(float(gather.run_strided(x, stride).double().sum()) - expected) < 1e-4 * numel


def test_a_row_is_read_and_written_once():
    assert gather.bytes(3, 10, 2) == 3 * (40 + 8)
    assert gather.flop(3, 10) == 0

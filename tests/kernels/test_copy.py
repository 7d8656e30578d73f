import pytest
import torch

from advisor.kernels import copy
from advisor.kernels.copy import Config

SIZES = [1, 1000, 4096, 50_001]


@pytest.mark.parametrize("numel", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("pattern", ["copy", "triad"])
def test_writes_every_element(pattern, dtype, numel, device, assert_close, poison):
    x, y = copy.make_inputs(numel, seed=numel, device=device, dtype=dtype)
    out = copy.run(
        pattern, x, y, poison(torch.empty_like(x)), Config(block=4096, num_warps=4, programs_per_sm=1)
    )
    assert_close(out, copy.reference(pattern, x, y))


def test_copy_is_exact(device):
    x, y = copy.make_inputs(5000, seed=1, device=device)
    assert torch.equal(copy.run("copy", x, y), x)


@pytest.mark.parametrize("numel", SIZES)
def test_read_sums_everything_once(numel, device):
    x, y = copy.make_inputs(numel, seed=numel, device=device)
    sums = copy.run("read", x, y)
    expected = copy.reference("read", x, y)
    assert abs(float(sums.double().sum()) - float(expected)) < 1e-4 * float(x.double().abs().sum())


def test_more_programs_than_blocks_is_harmless(device, assert_close):
    x, y = copy.make_inputs(10, seed=0, device=device)
    assert_close(copy.run("triad", x, y, config=Config(1024, 4, 64)), copy.reference("triad", x, y))


def test_traffic_counts_reads_and_writes():
    assert [copy.bytes(pattern, 10, 4) for pattern in ("read", "copy", "triad")] == [40, 80, 120]
    assert [copy.flop(pattern, 10) for pattern in ("read", "copy", "triad")] == [10, 0, 20]


def test_repeated_read_takes_every_element_in_every_pass(device):
    x, _ = copy.make_inputs(3 * 4096, seed=5, device=device)
    sums = copy.run_repeated_read(x, num_passes=4)
    assert abs(float(sums.double().sum()) - 4 * float(x.double().sum())) < 1e-3 * float(
        x.double().abs().sum()
    )
    with pytest.raises(ValueError, match="multiple"):
        copy.run_repeated_read(x[:100], num_passes=1)

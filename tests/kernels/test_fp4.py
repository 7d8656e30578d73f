import pytest
import torch

from advisor.kernels import fp4


@pytest.mark.parametrize("shape", [(1, 32), (3, 96), (70, 128), (5, 4128)], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", ["mxfp4", "nvfp4"])
def test_matches_reference(kind, dtype, shape, device, assert_close, poison):
    inputs = fp4.make_inputs(kind, *shape, 1, device)
    out = fp4.run(kind, *inputs, out=poison(torch.empty(shape, dtype=dtype, device=device)))
    assert_close(out, fp4.reference(kind, *inputs), slack=1.0)


def test_every_code_is_its_number(device):
    codes = torch.arange(256, dtype=torch.uint8, device=device).reshape(16, 16)
    ones = torch.full((16, 1), 127, dtype=torch.uint8, device=device)
    assert torch.equal(fp4.run("mxfp4", codes, ones).double(), fp4.decode(codes))


def test_powers_of_two_reach_both_ends(device):
    codes = torch.full((4, 16), 0x22, dtype=torch.uint8, device=device)  # one and one
    powers = torch.tensor([[0], [1], [254], [255]], dtype=torch.uint8, device=device)
    found = fp4.run("mxfp4", codes, powers)[:, 0].double().tolist()
    assert found[1:3] == [2.0**-126, 2.0**127]
    assert found[0] in (0.0, 2.0**-127)  # the interpreter has no subnormal bf16
    assert found[3] != found[3]


def test_groups_and_factors_that_do_not_fit_are_refused(device):
    codes, scale, factor = fp4.make_inputs("nvfp4", 2, 32, 0, device)
    with pytest.raises(ValueError, match="factor"):
        fp4.run("nvfp4", codes, scale)
    with pytest.raises(ValueError, match="factor"):
        fp4.run("mxfp4", *fp4.make_inputs("mxfp4", 2, 32, 0, device)[:2], factor)
    with pytest.raises(ValueError, match="groups"):
        fp4.run("nvfp4", codes[:, :7].contiguous(), scale, factor)


def test_counts():
    assert fp4.bytes("mxfp4", 2, 64) == 64 + 4 + 256
    assert fp4.bytes("nvfp4", 2, 64) == 64 + 8 + 256
    assert fp4.flop(2, 64) == 256

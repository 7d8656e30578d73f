import pytest

from advisor.kernels import pointer_chase


@pytest.mark.parametrize("num_hops", [0, 1, 7, 40])
def test_follows_the_chain(num_hops, device):
    (chain,) = pointer_chase.make_inputs(4096, seed=1, device=device)
    assert int(pointer_chase.run(chain, num_hops)) == pointer_chase.reference(chain, num_hops)


def test_the_chain_is_one_cycle_through_every_line(device):
    (chain,) = pointer_chase.make_inputs(4096, seed=2, device=device)
    positions = set()
    position = 0
    for _ in range(32):
        positions.add(position)
        position = int(chain[position])
    assert position == 0
    assert positions == set(range(0, 1024, 32))


def test_counts():
    assert pointer_chase.bytes(3) == 384
    assert pointer_chase.flop(3) == 0

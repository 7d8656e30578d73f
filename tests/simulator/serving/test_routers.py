"""Rules of routing, and the index that finds the least loaded replica."""

from hypothesis import given
from hypothesis import strategies as st

from advisor.simulator.serving.content import ROOT, ContentTree
from advisor.simulator.serving.fleet import Balance
from advisor.simulator.serving.loop import LoadIndex
from advisor.simulator.serving.router import PrefixHomes, unless_overloaded


@given(
    st.lists(st.tuples(st.sampled_from(["join", "leave", "more", "fewer"]), st.integers(0, 9)), max_size=80)
)
def test_the_index_finds_whom_a_search_finds(steps):
    index = LoadIndex()
    loads = {}
    for what, number in steps:
        if what == "join" and number not in loads:
            index.join(number)
            loads[number] = 0
        elif what == "leave" and number in loads:
            index.leave(number)
            del loads[number]
        elif what == "more" and number in loads:
            index.more(number)
            loads[number] += 1
        elif what == "fewer" and loads.get(number):
            count = (loads[number] + 1) // 2
            index.fewer(number, count)
            loads[number] -= count
        assert index.loads == loads
        assert index.members == sorted(loads)
        if loads:
            assert index.least_loaded() == min(loads, key=lambda member: (loads[member], member))
            assert index.least_load() == min(loads.values())


def test_affinity_gives_way_to_a_large_imbalance_only():
    balance = Balance(most_requests_above=10, most_ratio_above=2.0)
    assert unless_overloaded(1, {0: 0, 1: 10}, 0, balance) == 1
    assert unless_overloaded(1, {0: 0, 1: 11}, 0, balance) == 0
    assert unless_overloaded(1, {0: 50, 1: 70}, 0, balance) == 1
    assert unless_overloaded(None, {0: 5, 1: 3}, 1, balance) == 1
    assert unless_overloaded(7, {0: 5, 1: 3}, 1, balance) == 1


def test_the_longest_known_beginning_counts_if_it_is_long_enough():
    tree = ContentTree()
    common = tree.add(ROOT, 100)
    left = tree.add(common, 300)
    right = tree.add(common, 300)
    homes = PrefixHomes(tree.parents, tree.ends)
    members = {0: 0, 1: 0}
    assert homes.find(left, 400, 0.3, members) is None
    homes.remember(left, 0)
    assert homes.find(left, 400, 0.3, members) == 0
    assert homes.find(right, 400, 0.2, members) == 0
    assert homes.find(right, 400, 0.3, members) is None
    homes.remember(right, 1)
    assert homes.find(common, 100, 0.3, members) == 1
    assert homes.find(right, 400, 0.3, {0: 0}) is None

"""Ways to buy replicas: whole nodes, single accelerators of one node, joined nodes, hardware that is there."""

import datetime
import math

import pytest

from advisor.catalog import accelerators
from advisor.catalog.errors import InfeasibleError, UnknownNameError
from advisor.catalog.ownership import ownership
from advisor.catalog.schema import Price
from advisor.decide.offers import (
    OWN,
    offers_by_accelerator,
    owned_offer,
    owned_offers,
    placements,
)
from advisor.decide.purchase import Purchase, bill_of
from advisor.decide.scenario import Constraints, ExtraItems

DAY = datetime.date(2026, 11, 20)
H100 = accelerators.by_id("h100-sxm")


def price(count: int, usd: float, provider: str = "aws", accelerator: str = "h100-sxm") -> Price:
    return Price(
        provider=provider,
        sku=f"{provider}-{count}",
        region="",
        accelerator=accelerator,
        num_accelerators=count,
        term="on_demand",
        usd_per_hour=usd,
        observed_on=DAY,
        valid_from=DAY,
    )


def test_several_replicas_share_a_larger_sku() -> None:
    (way,) = placements(2, [price(8, 24.0)], H100)
    assert (way.replicas_per_unit, way.accelerators_per_unit, way.usd_per_unit_hour) == (4, 8, 24.0)
    assert way.usd_per_replica_hour == 6.0


def test_cheapest_per_replica_comes_first() -> None:
    ways = placements(1, [price(8, 24.0), price(1, 2.5), price(4, 14.0)], H100)
    assert [way.usd_per_replica_hour for way in ways] == [2.5, 3.0, 3.5]


def test_single_accelerators_join_only_where_the_provider_sells_them_so() -> None:
    assert placements(4, [price(1, 2.5, "lambda")], H100) == []
    (way,) = placements(4, [price(1, 2.5, "runpod")], H100)
    assert (way.replicas_per_unit, way.accelerators_per_unit, way.usd_per_unit_hour) == (1, 4, 10.0)
    assert placements(16, [price(1, 2.5, "runpod")], H100) == []


def test_only_whole_nodes_with_a_network_are_joined() -> None:
    (way,) = placements(16, [price(8, 24.0)], H100)
    assert (way.accelerators_per_unit, way.usd_per_unit_hour) == (16, 48.0)
    assert placements(16, [price(4, 12.0)], H100) == []
    assert placements(12, [price(8, 24.0)], H100) == []
    alone = H100.model_copy(update={"scale_out_bytes_per_s": None})
    assert placements(16, [price(8, 24.0)], alone) == []


def test_quoted_per_accelerator_but_sold_by_the_node() -> None:
    mi355x = accelerators.by_id("mi355x")
    (way,) = placements(1, [price(1, 2.95, "tensorwave", "mi355x")], mi355x)
    assert (way.replicas_per_unit, way.accelerators_per_unit) == (8, 8)
    assert way.usd_per_unit_hour == pytest.approx(8 * 2.95)
    assert way.price.usd_per_accelerator_hour == pytest.approx(2.95)


def test_own_hardware_ends_where_it_ends() -> None:
    own = owned_offer(8, H100, DAY)
    assert own.provider == OWN
    known = ownership(DAY)
    rate = known.value("system_power_factor") * known.value("pue") * known.value("electricity_usd_per_kwh")
    assert own.usd_per_hour == pytest.approx(8 * 700 / 1000 * rate)
    (way,) = placements(2, [own], H100)
    assert (way.replicas_per_unit, way.accelerators_per_unit, way.max_units) == (1, 2, 4)
    # Every count up to what is there may serve, at the electricity of the boards that it runs on; the others are off.
    assert 4 * way.usd_per_unit_hour == pytest.approx(own.usd_per_hour)
    bills = [
        bill_of(own, Purchase(way, count, count, 1.0, 1.0, 1.0).usd_per_hour, ExtraItems())
        for count in (1, 2, 4)
    ]
    drawn = [2 * count * 700 / 1000 * rate for count in (1, 2, 4)]
    assert [bill.usd_per_hour for bill in bills] == pytest.approx(drawn)
    assert placements(16, [own], H100) == []
    (rented,) = placements(2, [price(8, 24.0)], H100)
    assert rented.max_units is None


def test_a_power_budget_feeds_whole_accelerators_with_their_part_of_the_host() -> None:
    one_w = 700 * ownership(DAY).value("system_power_factor")
    chips = {"h100-sxm": H100, "rtx-4090": accelerators.by_id("rtx-4090")}

    def count_fed(budget_w: float, own: tuple[tuple[int, str], ...] = ((8, "h100-sxm"),)) -> dict[str, int]:
        offers = owned_offers(own, chips, DAY, budget_w)
        return {name: price.num_accelerators for name, (price,) in offers.items()}

    assert count_fed(8 * one_w) == {"h100-sxm": 8}
    assert count_fed(8 * one_w - 1) == {"h100-sxm": 7}
    assert count_fed(one_w) == {"h100-sxm": 1}
    assert count_fed(0.7 * one_w, ((8, "h100-sxm"), (2, "rtx-4090"))) == {"rtx-4090": 1}
    with pytest.raises(InfeasibleError) as refused:
        count_fed(one_w - 1)
    assert f"{math.ceil(one_w)}W" in str(refused.value.fix)


def test_offers_respect_providers_and_terms() -> None:
    everything = offers_by_accelerator(Constraints(), DAY)
    one = offers_by_accelerator(Constraints(providers=("aws",)), DAY)
    spot = offers_by_accelerator(Constraints(terms=("spot",)), DAY)
    assert {row.provider for rows in one.values() for row in rows} == {"aws"}
    assert {row.term for rows in everything.values() for row in rows} == {"on_demand"}
    assert {row.term for rows in spot.values() for row in rows} == {"spot"}
    assert set(offers_by_accelerator(Constraints(accelerators=("h100-sxm",)), DAY)) == {"h100-sxm"}
    for rows in everything.values():
        per_accelerator = [row.usd_per_accelerator_hour for row in rows]
        assert per_accelerator == sorted(per_accelerator)


@pytest.mark.parametrize("most", [1, 2, 4, 8])
def test_no_order_exceeds_the_accelerators_that_are_counted(most: int) -> None:
    limits = Constraints(accelerators=("h100-sxm",), most_rented=((most, "h100-sxm"),))
    limited = offers_by_accelerator(limits, DAY)["h100-sxm"]
    everything = offers_by_accelerator(Constraints(accelerators=("h100-sxm",)), DAY)["h100-sxm"]
    for size in (1, 2, 4, 8, 16):
        ways = placements(size, limited, H100)
        assert bool(ways) == (size <= most)
        assert all((way.max_units or math.inf) * way.accelerators_per_unit <= most for way in ways)
        least = {(way.price.provider, way.price.sku) for way in placements(size, everything, H100)}
        assert {(way.price.provider, way.price.sku) for way in ways} <= least


def test_an_unknown_provider_is_an_error_with_near_misses() -> None:
    with pytest.raises(UnknownNameError) as caught:
        offers_by_accelerator(Constraints(providers=("lambada",)), DAY)
    assert "lambda" in caught.value.fix + caught.value.hint

"""Storage, egress and power on the command line: they act on the bill, or are refused by name."""

import datetime
import json
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog.extra_prices import extra_rates, extra_tiers, usd_of_tiers
from advisor.catalog.prices import COMPARED_KINDS, all_providers, prices_as_of

Cli = Callable[[str], Any]
DAY = "--as-of 2026-11-20 --json"
UNPRICED = "digitalocean"
"""Provider that rents L40S and H100 and of which no price of storage is known."""


def first(cli: Cli, command: str, key: str = "options") -> dict[str, Any]:
    return cli(f"advisor {command} {DAY}").document()[key][0]


def storage_rate(chip: str) -> float:
    rows = prices_as_of(datetime.date(2026, 11, 20), providers=["dataoorts"], accelerators=[chip])
    (rate,) = {row.storage_usd_per_gb_hour for row in rows}
    assert rate is not None
    return rate


def lines_of(bill: dict[str, Any]) -> dict[str, float]:
    return {line["what"]: line["usd_per_month"] for line in bill["lines"]}


@pytest.mark.parametrize(
    "command",
    [
        "recommend --model 8b --rate 1 --gpu rtx-4090 --top 1",
        "recommend --model bge-m3 --workload embed --rate 5 --gpu rtx-4090 --top 1",
        "recommend --model 8b --workload batch --items 10k --gpu rtx-4090 --top 1",
        "recommend --model 8b --workload finetune --method lora --tokens 1M --gpu h100 --gpus 1 --top 1",
    ],
)
def test_storage_is_billed_where_its_price_is_known_and_unknown_elsewhere(cli: Cli, command: str) -> None:
    known = first(cli, f"{command} --provider dataoorts --storage-tb 2 --egress-tb 0")["bill"]
    plain = first(cli, f"{command} --provider dataoorts")["bill"]
    stored = lines_of(known)["storage"]
    chip = "h100-sxm" if "h100" in command else "rtx-4090"
    assert stored == pytest.approx(2000 * storage_rate(chip) * 730.5)
    assert known["usd_per_month"] == pytest.approx(plain["usd_per_month"] + stored)
    assert (lines_of(known)["egress"], known["unknown"]) == (0.0, [])
    assert "storage" not in lines_of(plain)
    other = first(cli, f"{command.replace('rtx-4090', 'l40s')} --provider {UNPRICED} --storage-tb 2")["bill"]
    assert "storage" not in lines_of(other)
    unknown = {each["what"]: each["reason"] for each in other["unknown"]}
    assert unknown["storage"] == {"code": "price_not_stated", "text": f"no price of {UNPRICED} is known"}


def test_cost_compares_by_the_whole_bill(cli: Cli) -> None:
    command = "advisor cost --model 8b --rate 2 --gpu rtx-4090 --provider dataoorts --api none --top 1"

    def ways(more: str) -> dict[str, dict[str, Any]]:
        run = cli(f"{command} {more} {DAY}")
        return {f"{way['way']} {way['note']}": way for way in json.loads(run.out)["ways"]}

    plain = ways("")
    stored = ways("--storage-tb 2")
    rate = 2000 * storage_rate("rtx-4090") * 730.5
    before = plain["rent always on"]
    after = stored["rent always on"]
    assert after["usd_per_month"] == pytest.approx(before["usd_per_month"] + rate)
    assert any("storage unknown" in name for name in stored if name.startswith("own"))


def test_a_budget_pays_for_storage_too(cli: Cli) -> None:
    command = "recommend --model 8b --budget 1000/month --gpu rtx-4090 --provider dataoorts --top 1 --fast"
    plain = first(cli, command)
    stored = first(cli, f"{command} --storage-tb 2")
    assert stored["machine"]["num_accelerators"] < plain["machine"]["num_accelerators"]
    assert stored["bill"]["usd_per_month"] <= 1000


def test_a_power_budget_leaves_fewer_accelerators(cli: Cli) -> None:
    option = first(cli, "recommend --model 8b --own 4xl40s --power-budget 1kW")
    assert option["machine"]["num_accelerators"] == 2  # 350 W each, 1.18 times with their host


@pytest.mark.parametrize("own", ["16xl40s", "8xrtx-4090"])
def test_a_power_budget_that_feeds_a_part_names_the_one_that_feeds_all(cli: Cli, own: str) -> None:
    count = own.partition("x")[0]
    said = cli(f"advisor recommend --model 8b --own {own} --power-budget 2kW --fast --as-of 2026-11-20").err
    part, _, enough = said.partition("2 kW feed ")[2].partition("\n")[0].partition("; ")
    assert 0 < int(part.split()[0]) < int(count)
    assert part.endswith(f"of {count} x {own.partition('x')[2]} with their hosts at full power")
    fed = cli(
        f"advisor recommend --model 8b --own {own} {enough.removesuffix(' feeds all')} --fast --as-of 2026-11-20"
    )
    assert (fed.code, "kW feed " in fed.err) == (0, False)


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (
            "recommend --model 8b --gpu l40s --power-budget 1kW",
            2,
            "--power-budget is for machines of your own",
        ),
        ("recommend --model 8b --own 4xl40s --power-budget 100W", 3, "--power-budget 413W or more"),
        ("recommend --model 8b --own 4xl40s --power-budget loads", 2, "not a power"),
        ("recommend --model 8b --own 4xl40s --power-budget 0W", 2, "--power-budget"),
        ("recommend --model 8b --rate 1 --storage-tb -1", 2, "--storage-tb"),
        ("recommend --model 8b --rate 1 --egress-tb lots", 2, "--egress-tb"),
        (
            "cost --model 8b --own 4xl40s --purchase-price 8000 --power-budget 100W",
            3,
            "--power-budget 413W or more",
        ),
    ],
)
def test_bad_amounts_are_told(cli: Cli, command: str, code: int, words: str) -> None:
    run = cli(f"advisor {command} --as-of 2026-11-20")
    assert run.code == code, run.err
    assert words in run.err


SELLERS: Final = {
    price.provider
    for price in prices_as_of(datetime.date(2026, 11, 20), kinds=COMPARED_KINDS, terms=["on_demand"])
    if price.tenancy == "dedicated"
}
PRICED: Final = sorted({(rate.provider, rate.item) for rate in extra_rates()})


@pytest.mark.parametrize("provider", sorted({provider for provider, _ in PRICED} & SELLERS))
def test_what_is_invited_acts_and_what_cannot_act_is_not_invited(cli: Cli, provider: str) -> None:
    """An amount that the bill asks for changes the bill, and one whose price is unknown is not asked for."""
    command = f"recommend --model 8b --rate 1 --provider {provider} --top 1 --fast"
    plain = first(cli, command)["bill"]
    stated = first(cli, f"{command} --storage-tb 2 --egress-tb 30")["bill"]
    invited = {each["what"] for each in plain["unknown"] if each["reason"]["code"] == "amount_not_stated"}
    assert invited == {item for name, item in PRICED if name == provider}
    assert invited == lines_of(stated).keys() - {"rent"}
    assert {each["what"] for each in stated["unknown"]} == {"storage", "egress"} - invited


def test_the_bills_of_hyperscalers_by_hand(cli: Cli) -> None:
    """10 TB are 9,313 GiB: AWS sells all but 100 of them at 9 cents, Google 1,024 at 12 and the rest at 11."""
    for provider, usd in (("aws", 0.09 * (9313.2 - 100)), ("gcp", 1024 * 0.12 + (9313.2 - 1024) * 0.11)):
        command = f"recommend --model 8b --rate 1 --provider {provider} --top 1 --fast --egress-tb 10"
        assert lines_of(first(cli, command)["bill"])["egress"] == pytest.approx(usd, rel=1e-4), provider


@given(st.sampled_from(PRICED), st.floats(0.0, 1e6), st.floats(0.0, 1e6))
def test_more_data_never_cost_less(priced: tuple[str, Any], one: float, other: float) -> None:
    (price,) = prices_as_of(datetime.date(2026, 11, 20), providers=["lambda"])[:1]
    tiers = extra_tiers(price.model_copy(update={"provider": priced[0]}), priced[1])
    assert usd_of_tiers(tiers, one + other) >= usd_of_tiers(tiers, one)


def test_every_priced_provider_is_known() -> None:
    assert {provider for provider, _ in PRICED} <= all_providers().keys()


def test_an_offers_own_price_counts_before_its_providers() -> None:
    (price,) = prices_as_of(datetime.date(2026, 11, 20), providers=["aws"])[:1]
    own = price.model_copy(update={"egress_usd_per_gb": 0.02})
    assert usd_of_tiers(extra_tiers(own, "egress"), 1000.0) == pytest.approx(20.0)
    assert extra_tiers(own, "storage") == extra_tiers(price, "storage") != ()

"""Refreshing price lists: what comes through, what is refused, and that nothing bad ever replaces what is kept."""

import datetime
import io
import itertools
import json
import threading
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.prices import prices_as_of
from advisor.refresh.fetch import Fetcher, FetchLimits, open_fetcher
from advisor.refresh.price_cache import PriceCache
from advisor.refresh.price_lists import SOURCES, price_lists
from advisor.refresh.refresh import RefreshOutcome, failures, refresh

TODAY = datetime.date(2026, 11, 20)
LATER = datetime.date(2026, 11, 25)
AZURE = "/api/retail/prices"
VAST = "/api/v0/bundles/"
LAMBDA = "/skypilot-org/skypilot-catalog/master/catalogs/v8/lambda/vms.csv"
AWS = "/offers/v1.0/aws/AmazonEC2/current/us-east-1/index.csv"
Reply = Any
Server = Any


@pytest.fixture
def run(server: Server, fetcher: Fetcher, cache: PriceCache) -> Callable[..., RefreshOutcome]:
    """Refresh one list of the server."""

    def refresh_list(name: str, day: datetime.date = TODAY, **options: bool) -> RefreshOutcome:
        source = name.split("-")[0]
        lists = price_lists([source], ["eastus"] if source == "azure" else (), server.at)
        (outcome,) = refresh([one for one in lists if one.name == name], cache, fetcher, day, **options)
        return outcome

    return refresh_list


def reply_like(server: Server, path: str, **changes: Any) -> Reply:
    return replace(server.replies[path][0], **changes)


def cached_prices(cache: PriceCache, name: str) -> dict[tuple[str, str, str], float]:
    rows = {(p.sku, p.region, p.term): p for p in cache.prices(name)}
    return {key: price.usd_per_hour for key, price in rows.items() if price.valid_to is None}


def test_azure_pages_are_followed_and_every_bad_row_is_refused_with_its_reason(
    run: Callable[..., RefreshOutcome], cache: PriceCache, server: Server
) -> None:
    outcome = run("azure-eastus")
    assert outcome.status == "refreshed", outcome.reason
    assert cached_prices(cache, "azure-eastus") == {
        ("Standard_ND96isr_H100_v5", "eastus", "on_demand"): 90.0,
        ("Standard_ND96isr_H100_v5", "eastus", "spot"): 40.5,
        ("Standard_ND96isr_H100_v5", "eastus", "reserved_1y"): pytest.approx(63.0),
        ("Standard_NC24ads_A100_v4", "eastus", "on_demand"): 3.673,
        ("Standard_NC48ads_A100_v4", "eastus", "on_demand"): 7.346,
        ("Standard_NC64as_T4_v3", "eastus", "on_demand"): 4.352,
    }
    reasons = {refused.sku: refused.reason for refused in outcome.refused}
    assert "not positive" in reasons["Standard_NC96ads_A100_v4"]
    assert "$698/h where the same offer was $6.98/h" in reasons["Standard_NC40ads_H100_v5"]
    assert "in EUR" in reasons["Standard_NC80adis_H100_v5"]
    assert outcome.unknown == ("Standard_NV6ads_A10_v5",)
    wanted = server.requests[0][1]
    assert "armRegionName+eq+%27eastus%27" in wanted
    assert (cache.folder / "refused" / "azure-eastus.csv").read_text().count("\n") == 4


def test_aws_takes_plain_linux_machines_and_reservations_without_upfront_payment(
    run: Callable[..., RefreshOutcome], cache: PriceCache
) -> None:
    outcome = run("aws-us-east-1")
    assert outcome.status == "refreshed", outcome.reason
    assert cached_prices(cache, "aws-us-east-1") == {
        ("p5.48xlarge", "us-east-1", "on_demand"): 55.04,
        ("p5.48xlarge", "us-east-1", "reserved_1y"): 38.5,
        ("g6.xlarge", "us-east-1", "on_demand"): 0.8048,
        ("trn1.32xlarge", "us-east-1", "on_demand"): 21.5,
    }
    assert [refused.sku for refused in outcome.refused] == ["g5.xlarge"]


def test_vast_is_the_median_per_accelerator_of_at_least_three_offers(
    run: Callable[..., RefreshOutcome], cache: PriceCache, server: Server
) -> None:
    run("vast")
    found = cached_prices(cache, "vast")
    assert found["rtx-4090-median", "any", "on_demand"] == pytest.approx((0.40 + 0.45) / 2)
    assert found["a100-sxm4-median", "any", "on_demand"] == 1.0
    assert found["a100-sxm4-40gb-median", "any", "on_demand"] == 0.65
    assert not [key for key in found if "h100" in key[0]]  # two offers are no market
    method, _, _, body = server.requests[0]
    assert method == "POST"
    assert json.loads(body)["rentable"] == {"eq": True}


def test_skypilot_rows_bear_the_day_of_their_last_change_and_take_the_bundled_regions(
    run: Callable[..., RefreshOutcome], cache: PriceCache
) -> None:
    run("skypilot-lambda")
    found = {price.sku: price for price in cache.prices("skypilot-lambda")}
    assert found["gpu_8x_h100_sxm5"].usd_per_hour == 26.0  # the cheaper region stands for `us`
    assert found["gpu_8x_h100_sxm5"].region == "us"
    assert {price.observed_on for price in found.values()} == {datetime.date(2026, 11, 12)}
    assert found["gpu_2x_h100_sxm5"].num_accelerators == 2  # a product that the bundled rows do not have


def test_a_spot_price_above_the_price_on_demand_is_refused(run: Callable[..., RefreshOutcome]) -> None:
    outcome = run("skypilot-verda", accept_changes=True)
    assert [refused.reason for refused in outcome.refused] == ["spot for $1.9/h, on demand for $1.29/h"]


def test_gpuhunt_is_dated_by_its_version(
    run: Callable[..., RefreshOutcome], cache: PriceCache, server: Server
) -> None:
    rows = (
        "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size\n"
        "a3-highgpu-8g,us-central1,88.49,208,1872.0,8,H100,80.0,False,\n"
        "n2-standard-2,us-central1,0.097,2,8.0,0,,,False,\n"
    )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("gcp.csv", rows)
    reply = type(server.replies[VAST][0])
    server.serve("/v2/version", reply(b"20261118-77\n"))
    server.serve("/v2/20261118-77/catalog.zip", reply(content.getvalue()))
    assert run("gpuhunt").status == "refreshed"
    (price,) = cache.prices("gpuhunt")
    assert (price.sku, price.observed_on.isoformat()) == ("a3-highgpu-8g", "2026-11-18")
    assert run("gpuhunt").status == "unchanged"
    server.serve("/v2/20261118-77/catalog.zip", reply(b"PK no zip"))
    server.serve("/v2/version", reply(b"20261119-78"))
    assert run("gpuhunt").status == "failed"


def test_a_tagged_list_that_did_not_change_is_not_sent_again_and_dated_anew(
    run: Callable[..., RefreshOutcome], cache: PriceCache, server: Server
) -> None:
    run("aws-us-east-1")
    before = cached_prices(cache, "aws-us-east-1")
    outcome = run("aws-us-east-1", LATER)
    assert outcome.status == "unchanged"
    assert server.requests[-1][2]["if-none-match"] == '"a1"'
    assert cached_prices(cache, "aws-us-east-1") == before
    assert outcome.newest == LATER
    assert len(cache.prices("aws-us-east-1")) == 2 * len(before)  # first and last reading
    run("aws-us-east-1", LATER + datetime.timedelta(3))
    assert len(cache.prices("aws-us-east-1")) == 2 * len(before)


SLOW = ("slow", "trickling")
BROKEN = {
    "slow": lambda reply: [replace(reply, pause_s=0.4)],
    "trickling": lambda reply: [replace(reply, trickle_s=0.02)],
    "truncated": lambda reply: [replace(reply, body=reply.body[:-100], stated_length=len(reply.body))],
    "cut where it states to be whole": lambda reply: [replace(reply, body=reply.body[:-100])],
    "stating too little": lambda reply: [replace(reply, stated_length=len(reply.body) - 100)],
    "an error of the server": lambda reply: [replace(reply, status=500, body=b"oops")],
    "too many requests": lambda reply: [replace(reply, status=429, headers={"Retry-After": "0"})],
    "too many requests for an hour": lambda reply: [replace(reply, status=429, headers={"Retry-After": "3600"})],
    "gone": lambda reply: [replace(reply, status=404)],
    "a page for people": lambda reply: [replace(reply, body=b"<html>Sign in</html>")],
    "not text": lambda reply: [replace(reply, body=bytes(range(256)))],
    "empty": lambda reply: [replace(reply, body=b"")],
    "of another schema": lambda reply: [replace(reply, body=b'{"offers": {}, "Items": {}}')],
    "without the documented fields": lambda reply: [
        replace(reply, body=b'{"offers": [{"gpu": "RTX 4090"}], "Items": [{"price": 1}]}')
    ],
    "with prices as words": lambda reply: [
        replace(reply, body=reply.body.replace(b'"retailPrice": ', b'"retailPrice": "x",\n"was": ')
                .replace(b'"dph_base": ', b'"dph_base": "x",\n"was": ').replace(b'"min_bid": ', b'"bid": '))
    ],
    "with prices in cents": lambda reply: [
        replace(reply, body=reply.body.replace(b'"retailPrice": ', b'"retailPrice": 100').replace(
            b'"dph_base": 0.', b'"dph_base": 10').replace(b'"dph_base": 1.', b'"dph_base": 101.').replace(
            b'"dph_base": 8.', b'"dph_base": 801.').replace(b'"min_bid": 0.', b'"min_bid": 10'))
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", ["azure-eastus", "vast"])
@pytest.mark.parametrize("fault", BROKEN)
def test_whatever_the_server_does_the_old_snapshot_survives(
    run: Callable[..., RefreshOutcome],
    fetcher: Fetcher,
    cache: PriceCache,
    server: Server,
    name: str,
    fault: str,
) -> None:
    path = VAST if name == "vast" else AZURE
    assert run(name).status == "refreshed"
    if fault in SLOW:
        fetcher.client.timeout = 0.15
        fetcher.limits = replace(fetcher.limits, total_s=0.4)
    files = {file: file.read_bytes() for file in cache.folder.rglob("*") if file.is_file()}
    server.replies[path] = BROKEN[fault](server.replies[path][0])
    outcome = run(name, LATER)
    assert outcome.status == "failed", fault
    assert outcome.reason
    assert outcome.num_prices == len(cached_prices(cache, name))
    assert {file: file.read_bytes() for file in cache.folder.rglob("*") if file.is_file()} == files


def test_a_list_that_lost_more_than_half_is_refused(
    run: Callable[..., RefreshOutcome], cache: PriceCache, server: Server
) -> None:
    run("azure-eastus")
    first = server.replies[AZURE][0]
    page = json.loads(first.body)
    server.serve(
        AZURE,
        replace(first, body=json.dumps(page | {"Items": page["Items"][:1], "NextPageLink": ""}).encode()),
    )
    outcome = run("azure-eastus", LATER)
    assert outcome.reason == "only 1 prices where there were 6"
    assert len(cached_prices(cache, "azure-eastus")) == 6


def test_a_region_that_sells_nothing_is_told(run: Callable[..., RefreshOutcome], server: Server) -> None:
    first = server.replies[AZURE][0]
    server.serve(AZURE, replace(first, body=b'{"Items": [], "NextPageLink": null}'))
    assert "is the region right?" in run("azure-eastus").reason


def test_a_next_page_on_another_host_is_not_followed(
    run: Callable[..., RefreshOutcome], server: Server
) -> None:
    first = server.replies[AZURE][0]
    page = json.loads(first.body) | {"NextPageLink": "http://elsewhere.example/api"}
    server.serve(AZURE, replace(first, body=json.dumps(page).encode()))
    assert "another host: elsewhere.example" in run("azure-eastus").reason


def test_pages_without_end_end(run: Callable[..., RefreshOutcome], server: Server) -> None:
    server.serve_recording(f"{AZURE}?$skip=7", "azure-1.json")
    assert "more than 100 pages" in run("azure-eastus").reason


def test_failures_that_pass_are_tried_again(run: Callable[..., RefreshOutcome], server: Server) -> None:
    good = server.replies[VAST][0]
    server.serve(VAST, replace(good, status=500), replace(good, status=503), good)
    assert run("vast").status == "refreshed"
    assert len(server.requests) == 3


def test_a_doubtful_new_price_leaves_the_old_one_standing_until_a_person_accepts_it(
    run: Callable[..., RefreshOutcome], cache: PriceCache, server: Server
) -> None:
    run("azure-eastus")
    key = ("Standard_ND96isr_H100_v5", "eastus", "on_demand")
    first = server.replies[AZURE][0]
    server.serve(
        AZURE, replace(first, body=first.body.replace(b'"retailPrice": 90.0', b'"retailPrice": 9.0'))
    )
    outcome = run("azure-eastus", LATER)
    assert outcome.status == "refreshed"
    assert "$9/h where the same offer was $90/h" in next(r.reason for r in outcome.refused if r.sku == key[0])
    assert cached_prices(cache, "azure-eastus")[key] == 90.0
    run("azure-eastus", LATER, accept_changes=True)
    assert cached_prices(cache, "azure-eastus")[key] == 9.0


def test_history_stays_so_that_old_days_keep_their_answer(
    run: Callable[..., RefreshOutcome], cache: PriceCache, server: Server
) -> None:
    run("azure-eastus")
    first = server.replies[AZURE][0]
    page = json.loads(first.body)
    page["Items"] = [item for item in page["Items"] if "A100" not in item["armSkuName"]]
    page["Items"][0] |= {"retailPrice": 80.0, "effectiveStartDate": "2026-11-24T00:00:00Z"}
    server.serve(AZURE, replace(first, body=json.dumps(page).encode()))
    outcome = run("azure-eastus", LATER)
    assert (outcome.num_changed, outcome.num_new) == (1, 0)

    def price(day: datetime.date, sku: str) -> list[float]:
        found = prices_as_of(day, providers=("azure",), cache_dir=cache.prices_folder)
        return [p.usd_per_hour for p in found if p.sku == sku and p.region == "eastus"]

    assert price(TODAY - datetime.timedelta(1), "Standard_ND96isr_H100_v5") == [98.32]  # bundled
    assert price(TODAY, "Standard_ND96isr_H100_v5") == [90.0]
    assert price(LATER, "Standard_ND96isr_H100_v5") == [80.0]
    gone = [p for p in cache.prices("azure-eastus") if p.sku == "Standard_NC24ads_A100_v4"]
    assert [p.valid_to for p in gone] == [LATER]


def test_a_rehearsal_writes_nothing(run: Callable[..., RefreshOutcome], cache: PriceCache) -> None:
    assert run("vast", is_rehearsal=True).status == "refreshed"
    assert not cache.folder.exists()


def test_a_damaged_cache_is_replaced(
    run: Callable[..., RefreshOutcome], cache: PriceCache, tmp_path: Path
) -> None:
    run("vast")
    (cache.prices_folder / "vast.csv").write_text("provider,sku\nx\n")
    (cache.folder / "state" / "vast.json").write_text("{")
    assert run("vast").status == "refreshed"
    assert len(cached_prices(cache, "vast")) == 6


def test_one_list_that_fails_does_not_stop_the_others(
    server: Server, fetcher: Fetcher, cache: PriceCache
) -> None:
    server.serve(LAMBDA)
    lists = price_lists(["skypilot", "vast"], (), server.at)
    outcomes = {one.name: one.status for one in refresh(lists, cache, fetcher, TODAY)}
    assert outcomes["skypilot-lambda"] == "failed"
    assert outcomes["skypilot-verda"] == "refreshed"
    assert outcomes["vast"] == "refreshed"


def test_lists_are_fetched_at_once(server: Server, fetcher: Fetcher, cache: PriceCache) -> None:
    lists = price_lists(["azure", "vast"], ["eastus"] * 6, server.at)
    all_asked = threading.Barrier(len(lists))
    first_answers = itertools.count()
    send = server.send

    def wait_for_all(handler: Any, reply: Reply) -> None:
        """Answer no list before every list was asked for: one after the other they would never come."""
        if next(first_answers) < len(lists):
            all_asked.wait(timeout=60.0)
        send(handler, reply)

    server.send = wait_for_all
    lines: list[str] = []
    outcomes = refresh(lists, cache, fetcher, TODAY, progress=lines.append, is_rehearsal=True)
    assert [outcome.status for outcome in outcomes] == ["refreshed"] * 7
    assert lines[-1] == "7 of 7 price lists came; waiting for none"


def test_without_a_network_it_is_soon_said_once_for_each_source(cache: PriceCache) -> None:
    lists = price_lists(SOURCES, at=lambda address: "http://127.0.0.1:1/")
    waits_s: list[float] = []
    with open_fetcher(FetchLimits(least_gap_s=0.0)) as fetcher:
        fetcher.sleep = waits_s.append
        outcomes = refresh(lists, cache, fetcher, TODAY)
    assert len(waits_s) <= len(lists)
    assert max(waits_s) < 1.3
    found = failures(outcomes)
    assert [name.split()[0].split("-")[0] for name, _ in found] == list(SOURCES)
    assert all("(2 attempts)" in reason for _, reason in found)


def test_a_list_without_a_tag_is_asked_for_by_its_day(
    run: Callable[..., RefreshOutcome], server: Server
) -> None:
    day = "Thu, 19 Nov 2026 08:00:00 GMT"
    server.serve_recording(AWS, "aws.csv", headers={"Last-Modified": day})
    assert run("aws-us-east-1").status == "refreshed"
    assert run("aws-us-east-1", LATER).status == "unchanged"
    assert server.requests[-1][2]["if-modified-since"] == day


def test_what_a_market_asks_is_kept_as_such(run: Callable[..., RefreshOutcome], cache: PriceCache) -> None:
    run("vast")
    run("azure-eastus")
    assert {(p.tenancy, p.price_kind) for p in cache.prices("vast")} == {("unknown", "marketplace_median")}
    assert {(p.tenancy, p.price_kind) for p in cache.prices("azure-eastus")} == {("dedicated", "list")}
    assert cache.prices("azure-eastus")[0].country == "US"

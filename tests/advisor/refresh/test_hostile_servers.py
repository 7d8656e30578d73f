"""Documents that were made to break a reader: each ends its list with one line, and what is kept stays as it was."""

import datetime
import gc
import gzip
import io
import json
import os
import struct
import time
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.catalog.refresh import aws_offers, azure_retail, gpuhunt_catalog, skypilot_vms, vast_bundles
from advisor.catalog.refresh.checks import check_quotes
from advisor.catalog.refresh.quote import FeedError, Quote
from advisor.refresh.fetch import Fetcher, FetchError, FetchLimits, open_fetcher
from advisor.refresh.price_cache import PriceCache
from advisor.refresh.price_lists import price_lists
from advisor.refresh.refresh import RefreshOutcome, refresh

TODAY = datetime.date(2026, 11, 20)
LATER = datetime.date(2026, 11, 25)
AZURE = "/api/retail/prices"
VAST = "/api/v0/bundles/"
LAMBDA = "/skypilot-org/skypilot-catalog/master/catalogs/v8/lambda/vms.csv"
COMMITS = "/repos/skypilot-org/skypilot-catalog/commits"
AWS = "/offers/v1.0/aws/AmazonEC2/current/us-east-1/index.csv"
VERSION = "/v2/version"
CATALOG = "/v2/20261118-77/catalog.zip"
LISTS = {
    "azure-eastus": (AZURE,),
    "vast": (VAST,),
    "skypilot-lambda": (LAMBDA, COMMITS),
    "aws-us-east-1": (AWS,),
    "gpuhunt": (VERSION, CATALOG),
}
MIB = 1 << 20
CASES = int(os.environ.get("ADVISOR_FUZZ_CASES", "0")) or 150
MOST_BYTES = 256 * MIB
Server = Any
GCP = (
    "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size\n"
    "a3-highgpu-8g,us-central1,88.49,208,1872.0,8,H100,80.0,False,\n"
)


def archive(name: str = "gcp.csv", text: str = GCP, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as file:
        file.writestr(name, text)
    return content.getvalue()


def mark_encrypted(content: bytes) -> bytes:
    """Archive with the flag that its member needs a password, in both of its headers."""
    return content.replace(b"PK\x03\x04\x14\x00\x00", b"PK\x03\x04\x14\x00\x01").replace(
        b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01"
    )


def bomb(size: int) -> bytes:
    return gzip.compress(b"\0" * size)


def lying(size: int) -> bytes:
    """An archive whose member unfolds to a gigabyte and states a kilobyte."""
    content = archive(text="0" * size)
    return content.replace(struct.pack("<L", size), struct.pack("<L", 1000))


DOCUMENTS: dict[str, tuple[bytes, dict[str, str]]] = {
    "nested JSON": (b"[" * 500_000, {}),
    "a deep object": (b'{"Items":' * 200_000, {}),
    "an integer of 5 000 digits": (b'{"Items": [' + b"9" * 5000 + b'], "offers": [' + b"9" * 5000 + b"]}", {}),
    "a date of 5 000 digits": (b"9" * 5000, {}),
    "a million entries": (b'{"offers": [' + b"{}," * 1_000_000 + b"{}]}", {}),
    "a list": (b"[]", {}),
    "a null": (b"null", {}),
    "an infinite number": (b'{"Items": [Infinity], "offers": [NaN]}', {}),
    "a cell of 131 072 characters": (b"FormatVersion,v1.0\n" + b"x" * 140_000 + b",y\n", {}),
    "an open quote": (b'FormatVersion,"' + b"x" * 200_000, {}),
    "null bytes": (b"\0" * 5000, {}),
    "lone surrogates": (b'{"Items": [{"armSkuName": "\\ud800"}], "offers": [{"gpu_name": "\\ud800"}]}', {}),
    "no UTF-8": (b"\xff\xfe\xfa" * 1000, {}),
    "a gzip that unfolds a thousandfold": (bomb(100 * MIB), {"Content-Encoding": "gzip"}),
    "gzip in gzip": (gzip.compress(bomb(100 * MIB)), {"Content-Encoding": "gzip, gzip"}),
    "gzip in gzip in gzip": (gzip.compress(gzip.compress(bomb(MIB))), {"Content-Encoding": "gzip,gzip,gzip"}),
    "torn gzip": (bomb(5000)[:-6], {"Content-Encoding": "gzip"}),
    "gzip that is none": (b"{}", {"Content-Encoding": "gzip"}),
    "something behind the gzip": (gzip.compress(b"{}") + b"x", {"Content-Encoding": "gzip"}),
    "an unknown coding": (zlib.compress(b"{}"), {"Content-Encoding": "deflate"}),
    "an archive of something else": (archive("aws.csv"), {}),
    "a corrupt archive": (archive(text=GCP * 100)[:60] + b"\xff" * 40 + archive(text=GCP * 100)[100:], {}),
    "an encrypted archive": (mark_encrypted(archive()), {}),
    "an archive of another method": (archive(method=zipfile.ZIP_LZMA), {}),
    "an archive that lies about its size": (lying(100 * MIB), {}),
    "an archive without its end": (archive()[:-5], {}),
    "a path out of the archive": (archive("../gcp.csv"), {}),
}  # fmt: skip
REFUSALS: dict[str, tuple[int, dict[str, str]]] = {
    "Retry-After: a superscript": (429, {"Retry-After": "\u00b2"}),
    "Retry-After: 5 000 digits": (503, {"Retry-After": "9" * 5000}),
    "Retry-After: a date without a zone": (429, {"Retry-After": "Mon, 23 Nov 2026 12:00:00 -0000"}),
    "Retry-After: the year 99999": (429, {"Retry-After": "Mon, 23 Nov 99999 12:00:00 GMT"}),
    "Location: another host": (302, {"Location": "https://elsewhere.example/list"}),
    "Location: no TLS": (301, {"Location": "http://prices.azure.com/api"}),
    "Location: a file": (302, {"Location": "file:///etc/passwd"}),
    "Location: bad IPv6": (302, {"Location": "https://[::1/list"}),
    "Location: a port that is none": (302, {"Location": "https://elsewhere.example:99999/"}),
    "Location: a user": (307, {"Location": "https://prices.azure.com@elsewhere.example/"}),
    "a status of its own": (299, {}),
    "nothing has changed, though nothing was asked": (304, {}),
}


@pytest.fixture
def run(server: Server, cache: PriceCache) -> Callable[..., RefreshOutcome]:
    """Refresh one list of the server, within the limits of a test."""
    with open_fetcher(
        FetchLimits(attempts=2, first_pause_s=0.001, longest_pause_s=0.05, least_gap_s=0.0)
    ) as fetcher:
        reply = type(server.replies[VAST][0])
        server.serve(VERSION, reply(b"20261118-77\n"))
        server.serve(CATALOG, reply(archive()))
        for path in (LAMBDA, AWS):  # without a tag nothing can be said to be unchanged
            server.replies[path] = [replace(server.replies[path][0], headers={})]

        def refresh_list(name: str, day: datetime.date = TODAY) -> RefreshOutcome:
            source = name.split("-")[0]
            lists = price_lists([source], ["eastus"] if source == "azure" else (), server.at)
            (outcome,) = refresh([one for one in lists if one.name == name], cache, fetcher, day)
            return outcome

        yield refresh_list


def files_of(cache: PriceCache) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in cache.folder.rglob("*") if file.is_file()}


def check_that_nothing_is_lost(run: Callable[..., RefreshOutcome], cache: PriceCache, name: str) -> None:
    before = files_of(cache)
    outcome = run(name, LATER)
    assert outcome.status == "failed", outcome
    assert 0 < len(outcome.reason) < 300
    assert outcome.reason.isprintable()
    assert outcome.num_prices > 0
    assert files_of(cache) == before


EVERY = bool(os.environ.get("ADVISOR_FUZZ_CASES"))
"""Every document at every address; else each address gets its share, so that every document is tried at several."""
SHARES = 5
ADDRESSES = [(name, path) for name, paths in LISTS.items() for path in paths]


@pytest.mark.parametrize(("share", "name", "path"), [(i, *address) for i, address in enumerate(ADDRESSES)])
def test_any_broken_document_ends_its_list_with_one_line(
    run: Callable[..., RefreshOutcome], cache: PriceCache, server: Server, share: int, name: str, path: str
) -> None:
    assert run(name).status == "refreshed"
    reply = type(server.replies[VAST][0])
    tracemalloc.start()
    try:
        for order, (title, (body, headers)) in enumerate(DOCUMENTS.items()):
            if title == "a path out of the archive" and path != CATALOG:
                continue
            if not EVERY and path != CATALOG and (order + share) % SHARES:
                continue
            if path == VERSION:  # its name decides whether there is something new
                body = b"20261119-78" + body if title == "null bytes" else body
            elif path == CATALOG:
                server.serve(VERSION, reply(b"20261119-78\n"))
                server.serve(CATALOG.replace("20261118-77", "20261119-78"), reply(body, headers=headers))
            server.serve(path, reply(body, headers=headers))
            gc.collect()
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            check_that_nothing_is_lost(run, cache, name)
            assert tracemalloc.get_traced_memory()[1] - before < MOST_BYTES, title
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", LISTS)
def test_any_refusal_ends_its_list_with_one_line(
    run: Callable[..., RefreshOutcome], cache: PriceCache, server: Server, name: str
) -> None:
    assert run(name).status == "refreshed"
    reply = type(server.replies[VAST][0])
    for status, headers in REFUSALS.values():
        server.serve(LISTS[name][0], reply(b"", status=status, headers=headers))
        check_that_nothing_is_lost(run, cache, name)


@pytest.mark.parametrize(
    "link",
    [
        "http://[::1/x",
        "https://[bad/",
        "//elsewhere.example",
        "file:///etc/passwd",
        "https://a:b:c/",
        "\u2028",
        7,
        [1],
        {"a": 1},
    ],
)
def test_a_next_page_that_is_no_address_ends_the_list(
    run: Callable[..., RefreshOutcome], cache: PriceCache, server: Server, link: object
) -> None:
    assert run("azure-eastus").status == "refreshed"
    page = json.loads(server.replies[AZURE][0].body) | {"NextPageLink": link}
    server.serve(AZURE, replace(server.replies[AZURE][0], body=json.dumps(page).encode()))
    check_that_nothing_is_lost(run, cache, "azure-eastus")


def test_headers_that_never_end_end(server: Server) -> None:
    reply = type(server.replies[VAST][0])
    server.serve(VAST, reply(b"{}", headers={f"X-{i}": "y" * 20 for i in range(60)}))
    send = server.send

    def slowly(handler: Any, answer: Any) -> None:
        write = handler.wfile.write

        def trickle(content: bytes) -> int:
            for i in range(len(content)):
                write(content[i : i + 1])
                handler.wfile.flush()
                time.sleep(0.01)
            return len(content)

        handler.wfile.write = trickle
        send(handler, answer)

    server.send = slowly
    with open_fetcher(FetchLimits(total_s=0.3, attempts=1, least_gap_s=0.0)) as fetcher:
        started = time.monotonic()
        with pytest.raises(FetchError, match="not whole after"):
            fetcher.get(server.origin + VAST)
        assert time.monotonic() - started < 12.0  # the headers take 18 s


def test_a_redirect_goes_only_where_the_source_is_listed(fetcher: Fetcher, server: Server) -> None:
    reply = type(server.replies[VAST][0])
    server.serve("/moved", reply(status=307, headers={"Location": VAST}))
    assert fetcher.within(frozenset({server.origin})).get(server.origin + "/moved") is not None
    with pytest.raises(FetchError, match="not listed"):
        fetcher.within(frozenset({"https://prices.azure.com"})).get(server.origin + "/moved")


def test_a_row_without_a_price_leaves_the_old_one_standing(
    run: Callable[..., RefreshOutcome], cache: PriceCache, server: Server
) -> None:
    def current(name: str) -> dict[tuple[str, str], float]:
        return {(p.sku, p.term): p.usd_per_hour for p in cache.prices(name) if p.valid_to is None}

    for name in ("vast", "skypilot-lambda"):
        assert run(name).status == "refreshed"
    market = json.loads(server.replies[VAST][0].body)
    for offer in market["offers"]:
        if offer["gpu_name"] == "RTX 4090":
            offer |= {"dph_base": None, "min_bid": "free"}
    server.replies[VAST] = [replace(server.replies[VAST][0], body=json.dumps(market).encode())]
    before = current("vast")
    outcome = run("vast", LATER)
    assert outcome.status == "refreshed"
    assert {entry.sku for entry in outcome.refused} == {"rtx-4090-median"}
    assert current("vast") == before

    sku = "gpu_2x_h100_sxm5"
    body = server.replies[LAMBDA][0].body.replace(b",7.9,", b",,")
    server.replies[LAMBDA] = [replace(server.replies[LAMBDA][0], body=body)]
    before = current("skypilot-lambda")
    outcome = run("skypilot-lambda", LATER)
    assert outcome.status == "refreshed", outcome.reason
    assert sku in {entry.sku for entry in outcome.refused}
    assert current("skypilot-lambda") == before


def test_names_that_would_damage_the_kept_file_are_refused() -> None:
    quote = Quote("aws", "p5.48xlarge", "us-east-1\n#", "on_demand", 55.0, "u", TODAY, num_accelerators=8.0)
    for region in ("us\n# east", "\x1b[2J", "\ud800", "x" * 1000):
        found = check_quotes([replace(quote, region=region)], ())
        assert not found.prices
        assert "control characters" in found.refused[0].reason
    assert all(name.isprintable() for name in check_quotes([replace(quote, sku="\x1b[2J")], ()).unknown)


CELL = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["RTX 4090", "Spot", "²", "-1", "1e400"]),
    st.lists(st.integers(), max_size=2),
)
AZURE_ITEM = st.fixed_dictionaries(
    dict.fromkeys(
        ("armSkuName", "armRegionName", "retailPrice", "productName", "skuName", "currencyCode"), CELL
    )
    | {"type": st.sampled_from(["Consumption", "Reservation", "x"])},
    optional={"reservationTerm": CELL, "effectiveStartDate": CELL},
)
OFFER = st.fixed_dictionaries(
    {
        "gpu_name": st.sampled_from(["A", "B"]),
        "num_gpus": CELL,
        "gpu_ram": st.sampled_from([24576, 1e300]) | CELL,
        "dph_base": CELL,
    },
    optional={"min_bid": CELL},
)


@settings(max_examples=CASES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    items=st.lists(AZURE_ITEM, max_size=4), offers=st.lists(OFFER, max_size=8), junk=st.binary(max_size=200)
)
def test_parsers_refuse_what_they_cannot_read(items: list[Any], offers: list[Any], junk: bytes) -> None:
    text = junk.decode("utf-8", errors="replace")
    day = TODAY
    readers: list[Callable[[], object]] = [
        lambda: azure_retail.parse_page(json.dumps({"Items": items}), "u", day)[0],
        lambda: vast_bundles.parse_bundles(json.dumps({"offers": offers}), "u", day),
        lambda: azure_retail.parse_page(text, "u", day)[0],
        lambda: vast_bundles.parse_bundles(text, "u", day),
        lambda: skypilot_vms.parse_vms("lambda", text, "u", day),
        lambda: skypilot_vms.parse_changed_on(text) and [],
        lambda: gpuhunt_catalog.parse_catalog(junk, "u", day),
        lambda: gpuhunt_catalog.parse_catalog(archive(text=text), "u", day),
        lambda: list(aws_offers.parse_offers(io.StringIO(text), "r", "u", day)),
    ]
    for read in readers:
        try:
            quotes: Any = read()
        except FeedError:
            continue
        check_quotes(quotes, ())

"""Fetching: which failures are tried again, how long it waits, what it refuses to take."""

from collections.abc import Callable
from typing import Any

import pytest

from advisor.refresh.fetch import Fetcher, FetchError, FetchLimits, Received

VAST = "/api/v0/bundles/"
Server = Any


@pytest.fixture
def waits(fetcher: Fetcher) -> list[float]:
    """Times that the fetcher would have slept."""
    slept: list[float] = []
    fetcher.sleep = slept.append
    return slept


def fetch_path(fetcher: Fetcher, server: Server, path: str = VAST, **options: Any) -> Received:
    found = fetcher.get(server.origin + path, **options)
    assert found is not None
    return found


def reply(server: Server, **fields: Any) -> Any:
    return type(server.replies[VAST][0])(**fields)


def test_pauses_double_and_spread(fetcher: Fetcher, server: Server, waits: list[float]) -> None:
    fetcher.limits = FetchLimits(attempts=5, first_pause_s=1.0, longest_pause_s=60.0, least_gap_s=0.0)
    server.serve(VAST, reply(server, status=502))
    with pytest.raises(FetchError, match=r"HTTP 502 \(5 attempts\)"):
        fetch_path(fetcher, server)
    assert len(server.requests) == 5
    assert all(0.75 * 2**i <= wait <= 1.25 * 2**i for i, wait in enumerate(waits))
    assert len(set(waits)) == 4


def test_a_server_says_how_long_to_wait(
    fetcher: Fetcher, server: Server, waits: list[float], http_date: Callable[[float], str]
) -> None:
    fetcher.limits = FetchLimits(longest_pause_s=60.0, least_gap_s=0.0)
    replies = [
        reply(server, status=429, headers={"Retry-After": when}) for when in ("7", http_date(30), "soon")
    ]
    server.serve(VAST, *replies, reply(server, body=b"ok"))
    assert fetch_path(fetcher, server).text == "ok"
    assert waits[0] == 7.0
    assert 25.0 < waits[1] <= 30.0
    assert waits[2] < 10.0  # what cannot be read counts as unsaid


def test_what_does_not_pass_is_not_tried_again(fetcher: Fetcher, server: Server, waits: list[float]) -> None:
    server.serve(VAST, reply(server, status=403))
    with pytest.raises(FetchError, match="HTTP 403"):
        fetch_path(fetcher, server)
    assert len(server.requests) == 1
    assert waits == []


def test_requests_to_one_host_keep_a_gap(fetcher: Fetcher, server: Server, waits: list[float]) -> None:
    fetcher.limits = FetchLimits(least_gap_s=0.5)
    fetcher.clock = lambda: 100.0
    fetch_path(fetcher, server)
    fetch_path(fetcher, server)
    assert waits == [0.5]


def test_a_document_too_large_is_not_taken(fetcher: Fetcher, server: Server) -> None:
    fetcher.limits = FetchLimits(most_bytes=1000.0, most_file_bytes=1000.0, least_gap_s=0.0)
    server.serve(VAST, reply(server, body=b"x" * 1001))
    with pytest.raises(FetchError, match="more than"):
        fetch_path(fetcher, server)
    with pytest.raises(FetchError, match="more than"), fetcher.download(server.origin + VAST):
        pass


def test_a_redirect_is_followed_and_an_endless_one_ends(fetcher: Fetcher, server: Server) -> None:
    server.serve("/moved", reply(server, status=302, headers={"Location": VAST}))
    assert fetch_path(fetcher, server, "/moved").content.startswith(b"{")
    server.serve("/round", reply(server, status=302, headers={"Location": "/round"}))
    with pytest.raises(FetchError, match="TooManyRedirects"):
        fetch_path(fetcher, server, "/round")


def test_a_tag_spares_the_transfer(fetcher: Fetcher, server: Server) -> None:
    server.serve(VAST, reply(server, body=b"ok", headers={"ETag": '"7"'}))
    assert fetch_path(fetcher, server).etag == '"7"'
    assert fetcher.get(server.origin + VAST, etag='"7"') is None
    assert fetch_path(fetcher, server, etag='"6"').text == "ok"


def test_nobody_listens(fetcher: Fetcher) -> None:
    with pytest.raises(FetchError, match="ConnectError"):
        fetcher.get("http://127.0.0.1:1/")


def test_a_second_attempt_starts_from_nothing(fetcher: Fetcher, server: Server) -> None:
    server.serve(VAST, reply(server, body=b"half", stated_length=9), reply(server, body=b"whole"))
    assert fetch_path(fetcher, server).text == "whole"

"""Refresh of price lists: fetch all at once, check, merge, replace. A list that fails keeps its old version."""

import datetime
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Final, Literal

from advisor.catalog.errors import InputFileError
from advisor.catalog.prices import bundled_prices
from advisor.catalog.refresh.checks import Refused, check_list, check_quotes
from advisor.catalog.refresh.merge import merge, to_known_regions
from advisor.catalog.refresh.quote import FeedError
from advisor.catalog.schema import Price
from advisor.refresh.fetch import Fetcher, FetchError
from advisor.refresh.price_cache import PriceCache
from advisor.refresh.price_lists import Fetched, PriceList

MOST_AT_ONCE: Final = 16
LONGEST_REASON: Final = 200
Status = Literal["refreshed", "unchanged", "failed"]


@dataclass(frozen=True, slots=True)
class RefreshOutcome:
    """Result of the refresh of one list."""

    name: str
    source: str
    url: str
    status: Status
    reason: str = ""
    """Cause of the failure; empty otherwise."""
    num_prices: int = 0
    """Number of offers in the list after the refresh."""
    num_new: int = 0
    """Number of offers that the old version did not have."""
    num_changed: int = 0
    """Number of offers with another price than in the old version."""
    newest: datetime.date | None = None
    """Date of the youngest price; None if there are no prices."""
    refused: tuple[Refused, ...] = ()
    unknown: tuple[str, ...] = ()
    """Names of products that the catalog does not know."""


def refresh(
    lists: Sequence[PriceList],
    cache: PriceCache,
    fetcher: Fetcher,
    day: datetime.date,
    *,
    is_rehearsal: bool = False,
    accept_changes: bool = False,
    progress: Callable[[str], None] = lambda line: None,
) -> list[RefreshOutcome]:
    """Fetch all lists at once and replace those that came. A rehearsal writes nothing; accepted changes are not
    checked against old prices.

    Raises: OSError: the cache cannot be written.
    """
    kept = [_read_cached(one, cache) for one in lists]
    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        try:
            coming = [
                pool.submit(_fetch_list, one, fetcher, etag, day)
                for one, (_, etag) in zip(lists, kept, strict=True)
            ]
            for number, _ in enumerate(as_completed(coming), 1):
                waiting = [one.name for one, future in zip(lists, coming, strict=True) if not future.done()]
                progress(
                    f"{number} of {len(lists)} price lists came; waiting for {', '.join(waiting) or 'none'}"
                )
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [
        _store_refreshed(one, cache, *before, future.result(), day, is_rehearsal, accept_changes)
        for one, before, future in zip(lists, kept, coming, strict=True)
    ]


def failures(outcomes: Iterable[RefreshOutcome]) -> tuple[tuple[str, str], ...]:
    """Return the failed lists with their reasons, once per source and reason."""
    lines: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        if outcome.status == "failed":
            lines.setdefault((outcome.source, outcome.reason), []).append(outcome.name)
    return tuple(
        (names[0] if len(names) == 1 else f"{source} ({len(names)} lists)", reason)
        for (source, reason), names in lines.items()
    )


def _read_cached(one: PriceList, cache: PriceCache) -> tuple[Sequence[Price], str]:
    try:
        return cache.prices(one.name), cache.etag(one.name)
    except InputFileError:  # a damaged copy counts as absent, so the list is fetched
        return (), ""


def _fetch_list(
    one: PriceList, fetcher: Fetcher, etag: str, day: datetime.date
) -> Fetched | FetchError | FeedError | None:
    try:
        return one.fetch(fetcher.within(one.addresses | {one.url}), etag, day)
    except (FetchError, FeedError) as error:
        return error
    except Exception as error:  # a document that the reader fails on fails its own list only
        return _unreadable_feed(error)


def _unreadable_feed(error: Exception) -> FeedError:
    return FeedError(f"cannot be read: {type(error).__name__}: {error}")


def _store_refreshed(
    one: PriceList,
    cache: PriceCache,
    old: Sequence[Price],
    etag: str,
    fetched: Fetched | FetchError | FeedError | None,
    day: datetime.date,
    is_rehearsal: bool,
    accept_changes: bool,
) -> RefreshOutcome:
    if fetched is None:
        return _store_unchanged(one, cache, old, etag, day, is_rehearsal)
    if not isinstance(fetched, Fetched):
        return _outcome(one, "failed", old, old, reason=_line(fetched))
    try:
        checked = check_quotes(fetched.quotes, (*bundled_prices(), *old), accept_changes=accept_changes)
        checked.prices = to_known_regions(checked.prices)
        check_list(checked, len(_current(old)))
        doubtful = {(entry.quote.provider, entry.sku, entry.quote.term) for entry in checked.refused}
        merged = merge(old, checked.prices, day, doubtful)
    except FeedError as error:
        return _outcome(one, "failed", old, old, reason=_line(error))
    except Exception as error:
        return _outcome(one, "failed", old, old, reason=_line(_unreadable_feed(error)))
    if not is_rehearsal:
        cache.replace(one.name, merged, checked.refused, fetched.etag)
    return _outcome(one, "refreshed", old, merged, tuple(checked.refused), tuple(sorted(checked.unknown)))


def _line(error: Exception) -> str:
    """Return the message of a failure as one printable line."""
    text = " ".join(str(error).split())
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}..."


def _store_unchanged(
    one: PriceList, cache: PriceCache, old: Sequence[Price], etag: str, day: datetime.date, is_rehearsal: bool
) -> RefreshOutcome:
    """Return the outcome of a current version; offers of a live list are dated today."""
    if not one.is_live:
        return _outcome(one, "unchanged", old, old)
    again = [price.model_copy(update={"observed_on": day}) for price in _current(old)]
    merged = merge(old, again, day)
    if not is_rehearsal:
        cache.replace(one.name, merged, (), etag)
    return _outcome(one, "unchanged", old, merged)


def _current(prices: Sequence[Price]) -> list[Price]:
    """Return the last row of every offer that has not ended."""
    last = {price.offer: price for price in prices}
    return [price for price in last.values() if price.valid_to is None]


def _outcome(
    one: PriceList,
    status: Status,
    old: Sequence[Price],
    now: Sequence[Price],
    refused: tuple[Refused, ...] = (),
    unknown: tuple[str, ...] = (),
    *,
    reason: str = "",
) -> RefreshOutcome:
    before = {price.offer: price.usd_per_hour for price in _current(old)}
    current = _current(now)
    return RefreshOutcome(
        name=one.name,
        source=one.source,
        url=one.url,
        status=status,
        reason=reason,
        num_prices=len(current),
        num_new=sum(price.offer not in before for price in current),
        num_changed=sum(
            before.get(price.offer, price.usd_per_hour) != price.usd_per_hour for price in current
        ),
        newest=max((price.observed_on for price in current), default=None),
        refused=refused,
        unknown=unknown,
    )

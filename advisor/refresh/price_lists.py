"""Price lists that a refresh can fetch, each with its function from document to quotes."""

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

from advisor.catalog.errors import UnknownNameError
from advisor.catalog.refresh import aws_offers, azure_retail, gpuhunt_catalog, skypilot_vms, vast_bundles
from advisor.catalog.refresh.quote import MOST_QUOTES, FeedError, Quote
from advisor.catalog.resolve import near_misses
from advisor.refresh.fetch import Fetcher, origin_of

MOST_PAGES: Final = 100


@dataclass(frozen=True, slots=True)
class Fetched:
    """Quotes of a list, and the tag of its version."""

    quotes: Sequence[Quote]
    etag: str = ""


@dataclass(frozen=True, slots=True)
class PriceList:
    """Price list of one document or chain of pages; kept, checked and replaced as a whole."""

    name: str
    source: str
    url: str
    fetch: Callable[[Fetcher, str, datetime.date], Fetched | None]
    """Function that fetches the list, given the tag of the kept version and the day; None if that version is current.
    """
    addresses: frozenset[str] = frozenset()
    """Addresses besides `url` from which its documents may come, also after a redirect."""
    is_live: bool = True
    """Whether the provider serves the list, so that its prices hold on the day of the fetch; otherwise the list has
    its own date."""


At = Callable[[str], str]
"""Function from the usual address of a document to the address to fetch now."""


@dataclass(frozen=True, slots=True)
class PriceSource:
    """Publisher of price lists that need no key."""

    lists: Callable[[Sequence[str], At], Iterable[PriceList]]
    """Function that returns the lists of the given regions, or of the usual regions if none is given."""
    by_default: bool = True


def price_lists(
    sources: Iterable[str], regions: Sequence[str] = (), at: At = lambda address: address
) -> tuple[PriceList, ...]:
    """Return the lists of the named sources; regions restrict those of Azure and AWS.

    Raises: UnknownNameError: there is no such source.
    """
    found: list[PriceList] = []
    for name in sources:
        if name not in SOURCES:
            raise UnknownNameError(
                f"unknown source of prices {name!r}",
                fix=f"choose among {', '.join(SOURCES)}",
                hint=", ".join(near_misses(name, SOURCES, {})),
            )
        found += SOURCES[name].lists(regions, at)
    return tuple(found)


def _azure(regions: Sequence[str], at: At) -> Iterable[PriceList]:
    for region in regions or azure_retail.REGIONS:
        first = azure_retail.first_page(region, at(azure_retail.ORIGIN))
        yield PriceList(f"azure-{region}", "azure", first, partial(_azure_pages, first))


def _azure_pages(first: str, fetcher: Fetcher, etag: str, day: datetime.date) -> Fetched:
    quotes: list[Quote] = []
    url = first
    for _ in range(MOST_PAGES):
        page = fetcher.get(url)
        if page is None:
            raise FeedError("not modified, though nothing was compared")
        more, url = azure_retail.parse_page(page.text, first, day)
        quotes += more
        if not url:
            return Fetched(quotes)
        if origin_of(url) != origin_of(first):
            raise FeedError("the next page is on another host: {1}, {0}".format(*origin_of(url)))
        if len(quotes) > MOST_QUOTES:
            raise FeedError(f"more than {MOST_QUOTES} prices")
    raise FeedError(f"more than {MOST_PAGES} pages")


def _aws(regions: Sequence[str], at: At) -> Iterable[PriceList]:
    for region in regions or aws_offers.REGIONS:
        url = aws_offers.offers_address(region, at(aws_offers.ORIGIN))
        yield PriceList(f"aws-{region}", "aws", url, partial(_aws_offers, region, url))


def _aws_offers(region: str, url: str, fetcher: Fetcher, etag: str, day: datetime.date) -> Fetched | None:
    with fetcher.download(url, etag=etag) as found:
        if found is None:
            return None
        path, new_etag = found
        with path.open(encoding="utf-8", errors="replace", newline="") as lines:
            return Fetched(
                list(islice(aws_offers.parse_offers(lines, region, url, day), MOST_QUOTES)), new_etag
            )


def _vast(regions: Sequence[str], at: At) -> Iterable[PriceList]:
    url = at(vast_bundles.ADDRESS)

    def fetch(fetcher: Fetcher, etag: str, day: datetime.date) -> Fetched | None:
        page = fetcher.get(url, body=vast_bundles.QUERY)
        return None if page is None else Fetched(vast_bundles.parse_bundles(page.text, url, day))

    yield PriceList("vast", "vast", url, fetch)


def _skypilot(regions: Sequence[str], at: At) -> Iterable[PriceList]:
    for provider in skypilot_vms.PROVIDERS:
        url = skypilot_vms.vms_address(provider, at(skypilot_vms.ORIGIN))
        history = skypilot_vms.history_address(provider, at(skypilot_vms.API_ORIGIN))
        fetch = partial(_skypilot_vms, provider, url, history)
        yield PriceList(f"skypilot-{provider}", "skypilot", url, fetch, frozenset({history}), is_live=False)


def _skypilot_vms(
    provider: str, url: str, history: str, fetcher: Fetcher, etag: str, day: datetime.date
) -> Fetched | None:
    page = fetcher.get(url, etag=etag)
    if page is None:
        return None
    changes = fetcher.get(history)
    changed_on = skypilot_vms.parse_changed_on(changes.text if changes else "")
    return Fetched(skypilot_vms.parse_vms(provider, page.text, url, min(changed_on, day)), page.etag)


def _gpuhunt(regions: Sequence[str], at: At) -> Iterable[PriceList]:
    origin = at(gpuhunt_catalog.ORIGIN)

    def fetch(fetcher: Fetcher, etag: str, day: datetime.date) -> Fetched | None:
        version = fetcher.get(gpuhunt_catalog.version_address(origin))
        name, made_on = gpuhunt_catalog.parse_version(version.text if version else "")
        if name == etag:
            return None
        url = gpuhunt_catalog.catalog_address(name, origin)
        archive = fetcher.get(url)
        quotes = gpuhunt_catalog.parse_catalog(archive.content if archive else b"", url, min(made_on, day))
        return Fetched(quotes, name)

    yield PriceList("gpuhunt", "gpuhunt", gpuhunt_catalog.version_address(origin), fetch, is_live=False)


SOURCES: Final[Mapping[str, PriceSource]] = {
    "azure": PriceSource(_azure),
    "aws": PriceSource(_aws, by_default=False),
    "vast": PriceSource(_vast),
    "skypilot": PriceSource(_skypilot),
    "gpuhunt": PriceSource(_gpuhunt, by_default=False),
}
"""Sources by name. A new source needs a parser in catalog.refresh, an entry here, and patterns of its products in
price_skus.toml."""
BY_DEFAULT: Final = tuple(name for name, source in SOURCES.items() if source.by_default)
"""Sources that a refresh fetches if none is named. AWS (hundreds of megabytes) and gpuhunt (second-hand) must be
named."""

"""Snapshots of refreshed prices: one file that a team shares, known by the digest of its rows."""

import datetime
import hashlib
import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import MOST_PRICES_BYTES, parsed_json, read_text
from advisor.catalog.prices import read_file
from advisor.refresh.fetch import FetchError, open_fetcher
from advisor.refresh.price_cache import PriceCache

KIND: Final = "price_snapshot"
FORMAT: Final = 1
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_URL: Final = re.compile(r"https?://", re.IGNORECASE)


def is_address(place: str) -> bool:
    """Whether a snapshot is fetched rather than read from a file."""
    return _URL.match(place) is not None


def digest_of(lists: Mapping[str, str]) -> str:
    """Return the SHA-256 of the rows of all lists, by name: equal prices, equal digest."""
    digest = hashlib.sha256()
    for name in sorted(lists):
        digest.update(name.encode() + b"\0" + lists[name].encode() + b"\0")
    return digest.hexdigest()


def snapshot_text(cache: PriceCache, day: datetime.date) -> str:
    """Return the kept prices as one document.

    Raises: InputFileError: nothing was refreshed, so there is nothing to share. OSError: a file cannot be read.
    """
    lists = {
        path.stem: path.read_text(encoding="utf-8") for path in sorted(cache.prices_folder.glob("*.csv"))
    }
    if not lists:
        raise InputFileError(
            "no prices were refreshed", why="a snapshot holds refreshed prices", fix="advisor catalog refresh"
        )
    content = {
        "kind": KIND,
        "format": FORMAT,
        "made_on": day.isoformat(),
        "digest": digest_of(lists),
        "lists": lists,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def load_snapshot(place: str, digest: str | None) -> Mapping[str, str]:
    """Return the price lists of a snapshot, every row checked.

    Raises: InputFileError: it cannot be read or fetched, has another digest, or a row is malformed.
    """
    if is_address(place) and digest is None and not place.lower().startswith("https:"):
        raise InputFileError(
            f"{place}: a snapshot over http could be changed on its way",
            why="neither the connection nor a digest says who wrote it",
            fix="an https address, or --digest SHA256",
        )
    text = _fetch(place) if is_address(place) else read_text(Path(place), MOST_PRICES_BYTES)
    try:
        content = parsed_json(text)
    except (ValueError, RecursionError):
        raise InputFileError(f"{place}: is no JSON", fix=_FIX) from None
    lists = _lists(content, place)
    found = digest_of(lists)
    for expected, whose in ((content.get("digest"), "the snapshot states"), (digest, "--digest is")):
        if expected is not None and str(expected).lower() != found:
            raise InputFileError(
                f"{place}: has digest {found[:16]}..., and {whose} {str(expected)[:16]}...",
                why="its prices were changed after it was written, or it is another snapshot",
                fix="ask for the file again, or give the digest of this one if you trust it",
            )
    _check_rows(lists, place)
    return lists


_FIX: Final = "name a file that advisor catalog refresh --write-snapshot wrote"


def _fetch(address: str) -> str:
    try:
        with open_fetcher() as fetcher:
            received = fetcher.within(frozenset((address,))).get(address)
    except FetchError as error:
        raise InputFileError(
            f"{address}: cannot be fetched", why=str(error), fix="check the address and the network"
        ) from None
    return "" if received is None else received.text


def _lists(content: Any, place: str) -> dict[str, str]:
    """Return the lists of a document.

    Raises: InputFileError: it is no snapshot, or one of another format.
    """
    is_one = isinstance(content, dict) and content.get("kind") == KIND
    if not is_one or content.get("format") != FORMAT:
        raise InputFileError(
            f"{place}: is no price snapshot",
            why=f"it has no kind {KIND!r} of format {FORMAT}",
            fix=_FIX,
        )
    lists = content.get("lists")
    if not isinstance(lists, dict) or not lists:
        raise InputFileError(f"{place}: has no lists", fix=_FIX)
    for name, text in lists.items():
        if not _NAME.fullmatch(name) or not isinstance(text, str):
            raise InputFileError(f"{place}: {name[:60]!r} is no list of prices", fix=_FIX)
    return lists


def _check_rows(lists: Mapping[str, str], place: str) -> None:
    """Refuse a snapshot with a malformed row.

    Raises: InputFileError: it names the list and the row.
    """
    with tempfile.TemporaryDirectory(prefix="advisor-") as folder:
        for name, text in lists.items():
            path = Path(folder) / f"{name}.csv"
            path.write_text(text, encoding="utf-8")
            try:
                read_file(path)
            except InputFileError as error:
                what = error.what.replace(str(path), f"{place}, list {name}")
                raise InputFileError(what, why=error.why, fix=error.fix) from None

"""A body as its bytes: what comes is counted before and after decoding, so that a few bytes cannot unfold into many."""

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from advisor.catalog.units import MB

if TYPE_CHECKING:
    import httpx

_STEP_BYTES: Final = 1 << 20
"""Most that is unfolded at a time."""
_PLAIN: Final = ("", "identity")
_GZIP: Final = ("gzip", "x-gzip")


class DecodingError(Exception):
    """A body that is too large, coded in a way that was not asked for, or damaged."""


def decoded(response: "httpx.Response", most_bytes: float) -> Iterator[bytes]:
    """The bytes of a body that is plain or compressed once.

    Raises: DecodingError: more than `most_bytes` come or unfold, the coding is another, or it is damaged.
    """
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding in _PLAIN:
        yield from _counted(response.iter_raw(), most_bytes)
    elif coding in _GZIP:
        yield from _counted(_unfolded(_counted(response.iter_raw(), most_bytes)), most_bytes)
    else:
        raise DecodingError(f"coded as {coding[:40]!r}, asked for was gzip")


def _counted(parts: Iterator[bytes], most_bytes: float) -> Iterator[bytes]:
    size = 0
    for part in parts:
        size += len(part)
        if size > most_bytes:
            raise DecodingError(f"more than {most_bytes / MB:g} MB")
        yield part


def _unfolded(parts: Iterator[bytes]) -> Iterator[bytes]:
    gzip = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        for part in parts:
            rest = part
            while rest and not gzip.eof:
                yield gzip.decompress(rest, _STEP_BYTES)
                rest = gzip.unconsumed_tail
            if gzip.unused_data:
                raise DecodingError("damaged gzip: something follows its end")
        while not gzip.eof and (last := gzip.decompress(gzip.unconsumed_tail, _STEP_BYTES)):
            yield last
    except zlib.error as error:
        raise DecodingError(f"damaged gzip: {error}") from None
    if not gzip.eof:
        raise DecodingError("damaged gzip: it ends too early")

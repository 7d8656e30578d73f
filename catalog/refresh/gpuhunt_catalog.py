"""The gpuhunt catalogue of dstack: a zip with a CSV per cloud, read for Google Cloud, whose own list needs a key."""

import datetime
import io
import re
import zipfile
import zlib
from typing import Final

from advisor.catalog.refresh.quote import FeedError, Quote, number, read_rows, whole
from advisor.catalog.units import GIB

ORIGIN: Final = "https://dstack-gpu-pricing.s3.eu-west-1.amazonaws.com"
PROVIDERS: Final = ("gcp",)
_STEP_BYTES: Final = 1 << 20
MOST_BYTES: Final = 200_000_000
"""Maximum size of one unpacked file [bytes]; the whole catalogue has about ten megabytes."""


def version_address(origin: str = ORIGIN) -> str:
    """Return the address that gives the name of the newest catalogue.

    Source: dstackai/gpuhunt, src/gpuhunt/_internal/catalog.py.
    """
    return f"{origin}/v2/version"


def catalog_address(version: str, origin: str = ORIGIN) -> str:
    return f"{origin}/v2/{version}/catalog.zip"


def parse_version(text: str) -> tuple[str, datetime.date]:
    """Return a catalogue's name and the day on which it was made, with which the name begins.

    Raises: FeedError: the text is not a catalogue's name.
    """
    name = text.strip()
    found = re.fullmatch(r"(\d{4})(\d{2})(\d{2})[\w.-]*", name)
    try:
        if found:
            return name, datetime.date(*map(int, found.groups()))
    except ValueError:
        pass
    raise FeedError(f"{name[:40]!r} is no name of a catalogue")


def parse_catalog(content: bytes, url: str, observed_on: datetime.date) -> list[Quote]:
    """Return the quotes of the machines with accelerators.

    Raises: FeedError: the content does not follow gpuhunt's format.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return [
                quote
                for provider in PROVIDERS
                for quote in _quotes(provider, _member(archive, f"{provider}.csv"), url, observed_on)
            ]
    except (zipfile.BadZipFile, zlib.error, LookupError, ValueError, RuntimeError, EOFError) as error:
        raise FeedError(f"no catalogue: {error}") from None


def _member(archive: zipfile.ZipFile, name: str) -> str:
    """Return a file of the archive, unpacked in pieces, because the size that the archive states may be wrong."""
    entry = archive.getinfo(name)
    if entry.file_size > MOST_BYTES:
        raise FeedError(f"{name} unpacks to {entry.file_size} bytes")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise FeedError(f"{name} is packed in another way than deflate")
    content = bytearray()
    with archive.open(entry) as packed:
        while part := packed.read(_STEP_BYTES):
            content += part
            if len(content) > MOST_BYTES:
                raise FeedError(f"{name} unpacks to more than {MOST_BYTES} bytes")
    return content.decode("utf-8")


def _quotes(provider: str, text: str, url: str, observed_on: datetime.date) -> list[Quote]:
    found = []
    for row in read_rows(text, "instance_name", "location", "price", "gpu_count", "gpu_name", "spot"):
        if number(row["gpu_count"]) == 0:
            continue
        memory = row.get("memory")
        found.append(
            Quote(
                provider=provider,
                sku=row["instance_name"],
                region=row["location"],
                term="spot" if row["spot"].lower() == "true" else "on_demand",
                usd_per_hour=number(row["price"]),
                url=url,
                observed_on=observed_on,
                gpu=row["gpu_name"],
                num_accelerators=number(row["gpu_count"]),
                memory_bytes=number(row["gpu_memory"]) * GIB if row.get("gpu_memory") else None,
                vcpus=whole(row.get("cpu")),
                ram_bytes=number(memory) * GIB if memory else None,
            )
        )
    return found

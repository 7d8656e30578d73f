"""Folder of refreshed prices: per list a CSV, the refused offers and the version; each file whole or absent."""

import csv
import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from advisor.catalog.prices import KEPT, find_cached_prices, read_file
from advisor.catalog.refresh.checks import Refused
from advisor.catalog.schema import Price
from advisor.catalog.units import GIB

_COLUMNS: Final = (
    "provider",
    "sku",
    "region",
    "accelerator",
    "num_accelerators",
    "term",
    "usd_per_hour",
    "observed_on",
    "valid_from",
    "valid_to",
    "vcpus",
    "ram_gb",
    "url",
    "tenancy",
    "price_kind",
    "country",
)
_REFUSED_COLUMNS: Final = (
    "reason",
    "provider",
    "sku",
    "region",
    "term",
    "usd_per_hour",
    "observed_on",
    "url",
)


@dataclass(frozen=True, slots=True)
class PriceCache:
    """Folder of refreshed prices."""

    folder: Path

    @property
    def prices_folder(self) -> Path:
        """Folder that `catalog.prices.prices_as_of` reads as its cache."""
        return self.folder / KEPT

    @property
    def is_filled(self) -> bool:
        return find_cached_prices(self.folder) is not None

    @property
    def version(self) -> str:
        """Short hash over the kept prices; empty if there are none.

        Raises: OSError: a file cannot be read.
        """
        if not self.is_filled:
            return ""
        digest = hashlib.sha256()
        for path in sorted(self.prices_folder.glob("*.csv")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()[:12]

    def keep_copy(self, folder: Path) -> None:
        """Copy the prices into another folder, so that the same answers can be reproduced later.

        Raises: OSError: it cannot be written.
        """
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.prices_folder, folder / KEPT)

    def prices(self, name: str) -> tuple[Price, ...]:
        """Return the rows of a list; none if it was never fetched.

        Raises: InputFileError: the file is damaged.
        """
        path = self._prices_path(name)
        return read_file(path) if path.exists() else ()

    def etag(self, name: str) -> str:
        """Return the tag of the kept version; empty if there is none or its record is damaged."""
        try:
            state = json.loads(self._state_path(name).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return ""
        kept = isinstance(state, Mapping) and self._prices_path(name).exists()
        return str(state.get("etag", "")) if kept else ""

    def replace(self, name: str, prices: Sequence[Price], refused: Sequence[Refused], etag: str) -> None:
        """Replace the kept version of a list: every file in one step, the prices first.

        Raises: OSError: the folder cannot be written; the kept version stays.
        """
        for path, text in (
            (self._prices_path(name), _csv(_COLUMNS, map(_price_row, prices))),
            (self.folder / "refused" / f"{name}.csv", _csv(_REFUSED_COLUMNS, map(_refused_row, refused))),
            (self._state_path(name), json.dumps({"etag": etag}) + "\n"),
        ):
            _replace(path, text)

    def replace_all(self, lists: Mapping[str, str]) -> None:
        """Replace all kept lists by those of a snapshot, the new ones first.

        Raises: OSError: the folder cannot be written.
        """
        for name, text in lists.items():
            _replace(self._prices_path(name), text)
            self._state_path(name).unlink(missing_ok=True)
        for path in self.prices_folder.glob("*.csv"):
            if path.stem not in lists:
                path.unlink()

    def clear(self) -> int:
        """Delete the kept lists and return their number.

        Raises: OSError: a file cannot be deleted.
        """
        lists = list(self.prices_folder.glob("*.csv"))
        for path in [*lists, *self.folder.glob("refused/*.csv"), *self.folder.glob("state/*.json")]:
            path.unlink()
        return len(lists)

    def _prices_path(self, name: str) -> Path:
        return self.prices_folder / f"{name}.csv"

    def _state_path(self, name: str) -> Path:
        return self.folder / "state" / f"{name}.json"


def _price_row(price: Price) -> dict[str, object]:
    row = {name: getattr(price, name) for name in _COLUMNS if name != "ram_gb"}
    return row | {"ram_gb": None if price.ram_bytes is None else price.ram_bytes / GIB}


def _refused_row(refused: Refused) -> dict[str, object]:
    return {"reason": refused.reason} | {name: getattr(refused.quote, name) for name in _REFUSED_COLUMNS[1:]}


def _csv(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: "" if value is None else value for name, value in row.items()} for row in rows)
    return text.getvalue()


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise

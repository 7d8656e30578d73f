"""What serving engines support on which architecture, as their sources say; nothing here was run."""

import functools
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from advisor.catalog.dtypes import EXL3_DTYPES, GGUF_DTYPES
from advisor.catalog.files import DATA_DIR, read_csv

Verdict = Literal["native", "emulated", "no", "unknown"]
"""native: a kernel of that format is chosen (int4 weights count, though they are multiplied in 16 bits); emulated: it
loads, but weights are expanded first; no: refused, or absent from a complete list; unknown: nobody says."""
FOLDER: Final = DATA_DIR / "support"
_BEST_FIRST: Final = ("native", "emulated", "unknown", "no")
_WAYS: Final = {"int4": ("int4-awq", "int4-gptq", "int4-mlx"), "int8": ("int8", "int8-mlx")}
"""Formats of the catalog that engines tell apart by how their checkpoints are made."""


class Support(NamedTuple):
    """Whether an engine supports something on an architecture, and who says so."""

    verdict: Verdict
    version: str = ""
    """Of the engine, of which this holds."""
    source: str = ""
    note: str = ""

    @property
    def is_usable(self) -> bool:
        return self.verdict in ("native", "emulated")


UNKNOWN: Final = Support("unknown")


def support(engine: str, architecture: str, what: str) -> Support:
    """Whether an engine serves a weight format, `kv:` cache format or `feature:` on an architecture.

    `what` is a format of the catalog (int4: the better of awq and gptq; every GGUF and EXL3 format is one), fp8-block,
    kv:fp8, feature:prefix_caching and the like, as `known_things` lists them.

    Assumes: ids of the catalog. What nobody states is unknown, never a guess.
    Source: data/support/engines.csv, each row with its source.
    """
    if what in GGUF_DTYPES:
        what = "gguf"
    elif what in EXL3_DTYPES:
        what = "exl3"
    matrix = _matrix()
    keys = [(engine, architecture, way) for way in _WAYS.get(what, (what,))]
    found = [matrix[key] for key in keys if key in matrix]
    return min(found, key=lambda one: _BEST_FIRST.index(one.verdict), default=UNKNOWN)


def stated(engine: str = "", architecture: str = "") -> Mapping[tuple[str, str, str], Support]:
    """Every statement by engine, architecture and thing; of one engine or architecture where it is named.

    Source: data/support/engines.csv, each row with its source.
    """
    return {
        key: one for key, one in _matrix().items() if engine in ("", key[0]) and architecture in ("", key[1])
    }


def known_things(engine: str = "") -> tuple[str, ...]:
    """Every format and feature about which something is known, of one engine or of all, sorted."""
    return tuple(sorted({what for name, _, what in _matrix() if engine in ("", name)}))


def engines_on(architecture: str) -> tuple[str, ...]:
    """Engines that are said to serve weights of some format on an architecture, sorted."""
    return tuple(
        sorted(
            {
                engine
                for (engine, name, what), one in _matrix().items()
                if name == architecture and one.is_usable and ":" not in what
            }
        )
    )


@functools.cache
def sources_of(name: str) -> Mapping[str, str]:
    """The numbered sources of a file of the folder."""
    rows = read_csv(FOLDER / f"{name}_sources.csv", ("source", "title"))
    return {cells["source"]: cells["title"] for _, cells in rows}


@functools.cache
def _matrix() -> Mapping[tuple[str, str, str], Support]:
    columns = ("engine", "version", "what", "support", "architectures", "source", "note")
    titles = sources_of("engines")
    found: dict[tuple[str, str, str], Support] = {}
    for _, cells in read_csv(FOLDER / "engines.csv", columns):
        one = Support(cells["support"], cells["version"], titles[cells["source"]], cells["note"])  # type: ignore[arg-type]
        for architecture in cells["architectures"].split():
            found[cells["engine"], architecture, cells["what"]] = one
    return found

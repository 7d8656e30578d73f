"""Points of a study: every case with every combination of the grid and every draw, each with a stable id."""

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from advisor.catalog.files import content_hash
from advisor.sweep.fields import Field, Value
from advisor.sweep.study import Range, Study, is_default

_ID_LENGTH: Final = 16
_DRAWN_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One point: the command's options that differ from its defaults."""

    id: str
    """Hash of command and options; a file counts by its content, not by its name."""
    options: Mapping[str, Value]


def points_of(
    study: Study, fields: Mapping[str, Field], common: Mapping[str, Value]
) -> tuple[tuple[SweepPoint, ...], int]:
    """Return every point once, in the order of the file, and the number of repeated points.

    `common` holds what the whole study shares (seed, day); a field of the study wins over it. Draws of a field
    depend on seed and name only, so that more points or fields leave the others as they were.
    """
    seed = study.draw_seed if study.draw_seed is not None else common.get("seed", 0)
    draws = list(_draws(study, fields, int(seed))) or [{}]
    found: dict[str, SweepPoint] = {}
    count = 0
    for case, combination, draw in itertools.product(study.cases or ({},), _combinations(study), draws):
        given = {**common, **study.base, **case, **combination, **draw}
        options = {name: value for name, value in given.items() if not is_default(value)}
        point = SweepPoint(point_id(study.command, options, fields), options)
        found.setdefault(point.id, point)
        count += 1
    return tuple(found.values()), count - len(found)


def point_id(command: str, options: Mapping[str, Value], fields: Mapping[str, Field]) -> str:
    """Return the stable id of a point [16 hexadecimal digits].

    Source: SHA-256 of its canonical JSON.
    """
    counted = {
        name: _content_of(Path(str(value))) if name in fields and _is_file(fields[name], value) else value
        for name, value in options.items()
    }
    text = json.dumps([command, counted], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]


def _combinations(study: Study) -> Iterator[dict[str, Value]]:
    for values in itertools.product(*study.grid.values()):
        yield dict(zip(study.grid, values, strict=True))


def _draws(study: Study, fields: Mapping[str, Field], seed: int) -> Iterator[dict[str, Value]]:
    columns = {
        name: _column(name, source, fields[name], study.num_draws, seed)
        for name, source in study.draws.items()
    }
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def _column(name: str, source: Range | tuple[Value, ...], field: Field, count: int, seed: int) -> list[Value]:
    """Return the draws of one field, from a random stream of its own."""
    stream = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    uniform = np.random.Generator(np.random.PCG64([seed, stream])).random(count)
    if not isinstance(source, Range):
        return [source[int(u * len(source))] for u in uniform]
    if source.log:
        numbers = source.low * (source.high / source.low) ** uniform
    else:
        numbers = source.low + (source.high - source.low) * uniform
    return [_write_number(float(number), source, field) for number in numbers]


def _write_number(number: float, source: Range, field: Field) -> Value:
    if field.kind is int:
        return round(number)
    rounded = float(f"{number:.{_DRAWN_DIGITS}g}")
    return f"{rounded:.{_DRAWN_DIGITS}g}{source.unit}" if field.kind is str else rounded


def _is_file(field: Field, value: Value) -> bool:
    return field.kind is Path and not (field.or_name and not Path(str(value)).is_file())


def _content_of(path: Path) -> str:
    state = path.stat()
    return _content_hash(path, state.st_mtime_ns, state.st_size)


@cache
def _content_hash(path: Path, changed_ns: int, size: int) -> str:
    """Return the hash of a file; change time and size are arguments so that the cache reads a changed file again."""
    return content_hash(path)

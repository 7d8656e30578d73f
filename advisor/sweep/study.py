"""Study files: the command, its fixed fields, and its varied fields; errors name the line."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from advisor.catalog.errors import AdvisorError, InputFileError
from advisor.catalog.files import read_text, read_toml
from advisor.catalog.resolve import near_misses
from advisor.sweep.fields import DEFAULT, Field, FieldError, Value, checked_value, unknown_field

TABLES: Final = ("command", "pareto", "base", "grid", "random", "case")
MAX_POINTS: Final = 1_000_000
MAX_NUMBER: Final = 1e300
_RANGE_KEYS: Final = ("low", "high", "log", "unit")


@dataclass(frozen=True, slots=True)
class Range:
    """Range from which a field is drawn: uniform between two numbers, or uniform in their logarithm."""

    low: float
    high: float
    log: bool = False
    unit: str = ""
    """Unit written behind the number: 50 with ms is 50ms."""


@dataclass(frozen=True, slots=True)
class Study:
    """Checked study: its field accepts every value."""

    path: Path
    command: str
    base: Mapping[str, Value]
    grid: Mapping[str, tuple[Value, ...]]
    cases: tuple[Mapping[str, Value], ...]
    """Sets of values that belong together; every set is combined with every point of the grid."""
    draws: Mapping[str, Range | tuple[Value, ...]]
    num_draws: int
    draw_seed: int | None
    pareto: tuple[str, ...]

    @property
    def num_points(self) -> int:
        grid = math.prod(len(values) for values in self.grid.values())
        return grid * max(1, len(self.cases)) * max(1, self.num_draws)


class CommandFields(Protocol):
    """Function that returns the fields of a command by its name."""

    def __call__(self, command: str) -> Mapping[str, Field]: ...


def read_study(path: Path, commands: tuple[str, ...], fields_of: CommandFields) -> Study:
    """Return the study of a file.

    Raises: InputFileError: the file is no TOML, names no command that can be swept, has an unknown table or field,
        a value of the wrong type or out of bounds, or too many points; with file and line.
    """
    data = read_toml(path)
    where = _Where(path)
    for name in data:
        if name not in TABLES:
            near = near_misses(name, TABLES, {})
            fix = (
                f"one of {', '.join(near or TABLES)}; [base] holds what all points share, [grid] what differs"
            )
            raise where.error("", name, f"unknown entry {name!r}", fix=fix)
    command = _command(data, commands, where)
    reader = _StudyReader(where, fields_of(command), command)
    study = Study(
        path=path,
        command=command,
        base=reader.values("base", data.get("base", {})),
        grid=reader.grid(data.get("grid", {})),
        cases=reader.cases(data.get("case", [])),
        draws=reader.draws(data.get("random", {})),
        num_draws=reader.count(data.get("random", {}), "points", 0),
        draw_seed=reader.seed(data.get("random", {})),
        pareto=reader.pareto(data.get("pareto", [])),
    )
    _check_whole(study, reader, where)
    return study


def _command(data: Mapping[str, Any], commands: tuple[str, ...], where: "_Where") -> str:
    command = data.get("command")
    if command in commands:
        return str(command)
    near = near_misses(str(command), commands, {}) if command else ()
    raise where.error(
        "",
        "command",
        f"unknown command {command!r}" if command else "no command",
        why=f"commands that can be swept: {', '.join(commands)}",
        fix=f'command = "{near[0] if near else commands[0]}"',
    )


def _check_whole(study: Study, reader: "_StudyReader", where: "_Where") -> None:
    seen: dict[str, str] = {}
    cases = {name: None for case in study.cases for name in case}
    for table, names in (
        ("base", study.base),
        ("grid", study.grid),
        ("random", study.draws),
        ("case", cases),
    ):
        for name in names:
            if name in seen and not (table == "case" and seen[name] == "base"):
                raise where.error(
                    table, name, f"{name} stands in [{seen[name]}] and in [{table}]", fix="keep one"
                )
            seen[name] = table
    missing = [field.name for field in reader.fields.values() if field.required and field.name not in seen]
    if missing:
        raise where.error(
            "base",
            "",
            f"{', '.join(missing)} must be given",
            why=f"advisor {study.command} needs it",
            fix="add it to [base]",
        )
    if bool(study.draws) != bool(study.num_draws):
        raise where.error("random", "points", "[random] needs both points and fields", fix="points = 100")
    if study.num_points > MAX_POINTS:
        raise where.error(
            "grid",
            "",
            f"{study.num_points:,} points are too many",
            why=f"at most {MAX_POINTS:,}",
            fix="draw at [random]",
        )


class _Where:
    """Finder of the line of an entry, which the TOML reader does not keep."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = read_text(path).splitlines()

    def error(
        self, table: str, name: str, what: str, *, why: str = "", fix: str = "", hint: str = ""
    ) -> InputFileError:
        """Return an error that names file, line, table and field."""
        line = self._line(table, name)
        spot = ".".join(part for part in (table, name) if part)
        return InputFileError(
            f"{self.path}: {f'line {line}: ' if line else ''}{f'{spot}: ' if spot else ''}{what}",
            why=why,
            fix=fix,
            hint=hint,
        )

    def _line(self, table: str, name: str) -> int | None:
        current = ""
        found = None
        for number, text in enumerate(self.lines, 1):
            header = re.match(r"\s*\[+\s*([\w.-]+)\s*\]+", text)
            if header:
                current = header.group(1)
                if current == (table or name) and (not name or not table):
                    return number
                found = number if current == table else found
            elif current == table and name and re.match(rf"\s*[\"']?{re.escape(name)}[\"']?\s*=", text):
                return number
        return found


class _StudyReader:
    """Checker of the tables of one study against the fields of its command."""

    def __init__(self, where: _Where, fields: Mapping[str, Field], command: str) -> None:
        self.where = where
        self.fields = fields
        self.command = command

    def values(self, table: str, entries: object) -> dict[str, Value]:
        """Return one value per field."""
        return {name: self.value(table, name, value) for name, value in self.table(table, entries).items()}

    def grid(self, entries: object) -> dict[str, tuple[Value, ...]]:
        """Return a list of values per field."""
        return {
            name: self.choices("grid", name, values) for name, values in self.table("grid", entries).items()
        }

    def cases(self, entries: object) -> tuple[dict[str, Value], ...]:
        """Return the sets of values that belong together."""
        if not isinstance(entries, list):
            raise self.where.error("case", "", "cases are written [[case]]", fix="two brackets")
        return tuple(self.values("case", entry) for entry in entries)

    def draws(self, entries: object) -> dict[str, Range | tuple[Value, ...]]:
        """Return a range or a list per field."""
        table = dict(self.table("random", entries))
        for name in ("points", "seed"):
            if name in table and name not in self.fields:
                table.pop(name)
        table.pop("seed", None)
        return {
            name: self.range(name, value) if isinstance(value, dict) else self.choices("random", name, value)
            for name, value in table.items()
        }

    def count(self, entries: Mapping[str, Any], name: str, default: int) -> int:
        """Return a positive whole number of the table `random`."""
        value = entries.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < min(default, 1):
            raise self.where.error(
                "random", name, f"{value!r} is not a whole number from 1", fix=f"{name} = 100"
            )
        return value

    def seed(self, entries: Mapping[str, Any]) -> int | None:
        """Return the seed of the draws; None if the study names none, or if it is a field of the command."""
        value = entries.get("seed")
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63):
            return value
        raise self.where.error("random", "seed", f"{value!r} is no seed", fix="seed = 7")

    def pareto(self, entries: object) -> tuple[str, ...]:
        """Return the objectives as written: min COLUMN or max COLUMN."""
        if isinstance(entries, list) and all(isinstance(entry, str) for entry in entries):
            return tuple(entries)
        raise self.where.error("", "pareto", "objectives are a list of texts", fix='pareto = ["min COLUMN"]')

    def table(self, table: str, entries: object) -> Mapping[str, Any]:
        if isinstance(entries, dict):
            return entries
        raise self.where.error("", table, f"{table} is not a table", fix=f"write it as [{table}]")

    def choices(self, table: str, name: str, values: object) -> tuple[Value, ...]:
        if not isinstance(values, list) or not values:
            if name in self.fields:
                raise self.where.error(table, name, "not a list of values", fix=f"{name} = [...]")
            raise self._with_line(table, name, unknown_field(name, self.fields, self.command))
        return tuple(self.value(table, name, value) for value in values)

    def value(self, table: str, name: str, value: object) -> Value:
        if name not in self.fields:
            raise self._with_line(table, name, unknown_field(name, self.fields, self.command))
        try:
            return checked_value(self.fields[name], value, self.where.path.parent)
        except FieldError as error:
            raise self._with_line(table, name, error) from None

    def range(self, name: str, entries: Mapping[str, Any]) -> Range:
        if name not in self.fields:
            raise self._with_line("random", name, unknown_field(name, self.fields, self.command))
        unknown = [key for key in entries if key not in _RANGE_KEYS]
        low = entries.get("low")
        high = entries.get("high")
        numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (low, high))
        if unknown or not numbers or not -MAX_NUMBER < low < high < MAX_NUMBER:  # type: ignore[operator]
            raise self.where.error(
                "random",
                name,
                f"unknown key {unknown[0]}" if unknown else "needs low < high",
                fix="{ low = 1, high = 10, log = true }",
            )
        found = Range(float(low), float(high), bool(entries.get("log")), str(entries.get("unit", "")))  # type: ignore[arg-type]
        if found.log and found.low <= 0:
            raise self.where.error("random", name, "a logarithmic range begins above 0", fix="low = 0.1")
        for end in (found.low, found.high):
            self.value(
                "random", name, f"{end:g}{found.unit}" if found.unit else _fitting(self.fields[name], end)
            )
        return found

    def _with_line(self, table: str, name: str, error: AdvisorError) -> InputFileError:
        return self.where.error(table, name, error.what, why=error.why, fix=error.fix, hint=error.hint)


def _fitting(field: Field, number: float) -> Value:
    return round(number) if field.kind is int else number


def is_default(value: Value) -> bool:
    """Whether a value stands for the command's own default."""
    return value == DEFAULT

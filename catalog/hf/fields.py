"""Fields of a model's config.json; each reading error names file and field."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import parsed_json, read_text
from advisor.catalog.hf.nested import with_class_defaults
from advisor.catalog.legible import on_one_line

_LARGEST_COUNT: Final = 100_000_000
_LARGEST_FACTOR: Final = 16
"""Largest width of a layer over the hidden size; published models stay below 8."""
_MOST_LAYERS: Final = 10_000
"""Maximum number of layers that is read: ten times the deepest published model, because each layer costs work here."""
_MOST_CHARACTERS: Final = 200
"""Characters of a refusal, which quotes the file: of longer ones the middle is left out."""
PASTED: Final = "the given text"
"""Name of a config.json whose text is given in place of its path."""
_LAYERS: Final = ("layers", "n_layer", "depth")
_TEXT_TOWER_KEYS: Final = ("text_config", "llm_config", "language_config", "thinker_config")


@dataclass(frozen=True, slots=True)
class ConfigFields:
    """JSON object of a config file. The getters take alternative spellings of a field; the first one present wins."""

    values: Mapping[str, Any]
    file: str
    prefix: str = ""
    defaults_told: tuple[str, ...] = ()
    """Sentences on fields that the file leaves out and that classes of the transformers library have."""

    def has(self, *names: str) -> bool:
        """Whether any of the spellings is present and not null."""
        return self._present(names) is not None

    def count(self, *names: str, hint: str = "") -> int:
        """Return a positive whole number that must be present."""
        value = self.optional_count(*names)
        if value is None:
            self.fail(
                names[0],
                "is missing",
                fix=f"add {' or '.join(dict.fromkeys(names))} to the file",
                hint=hint
                or "take the whole config.json of the model's repository: what it leaves out is not guessed",
            )
        return value

    def optional_count(self, *names: str) -> int | None:
        """Return a positive whole number, or None if no spelling is present."""
        name = self._present(names)
        return None if name is None else self._check_minimum(name, self.values[name], minimum=1)

    def optional_number(self, *names: str) -> int:
        """Return a whole number of at least 0; 0 if no spelling is present."""
        name = self._present(names)
        return 0 if name is None else self._check_minimum(name, self.values[name], minimum=0)

    def factor(self, name: str) -> float:
        """Return a factor by which a width exceeds the hidden size."""
        value = self.values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LARGEST_FACTOR:
            self.fail(name, f"is {value!r}, not a factor")
        return float(value)

    def flag(self, *names: str) -> bool:
        """Whether the field is present and true."""
        name = self._present(names)
        return name is not None and self.values[name] is True

    def text(self, *names: str) -> str:
        """Return a string; empty if no spelling is present."""
        name = self._present(names)
        return str(self.values[name]) if name is not None else ""

    def sequence(self, *names: str) -> tuple[Any, ...] | None:
        """Return a list, or None if no spelling is present as a list."""
        for name in names:
            entries = self.values.get(name)
            if isinstance(entries, list):
                if len(entries) > _MOST_LAYERS:
                    self.fail(name, f"has {len(entries):,} entries, more than {_MOST_LAYERS:,}")
                return tuple(entries)
        return None

    def per_layer(self, num_layers: int, *names: str) -> tuple[Any, ...] | None:
        """Return a list with one entry per layer; longer lists (entries of MTP layers) are cut."""
        entries = self.sequence(*names)
        if entries is not None and len(entries) < num_layers:
            self.fail(
                next(name for name in names if name in self.values),
                f"has {len(entries)} entries for {num_layers} layers",
                fix="make num_hidden_layers and the list agree",
            )
        return None if entries is None else entries[:num_layers]

    def section(self, *names: str) -> "ConfigFields | None":
        """Return a nested object, or None."""
        for name in names:
            if isinstance(self.values.get(name), dict):
                return ConfigFields(self.values[name], self.file, f"{self.prefix}{name}.")
        return None

    def with_sections(self, *names: str) -> "ConfigFields":
        """Return the fields together with those of nested objects, as if all were on one level."""
        nested = [section.values for section in map(self.section, names) if section is not None]
        merged = {key: value for values in nested for key, value in values.items()}
        return ConfigFields({**merged, **self.values}, self.file, self.prefix)

    def text_tower(self) -> "ConfigFields":
        """Return the language model's object: in a vision-language file the nested one, else this one."""
        nested = self.section(*_TEXT_TOWER_KEYS)
        return nested.text_tower() if nested else self

    def fail(self, field: str, problem: str, *, fix: str = "", hint: str = "") -> NoReturn:
        """Refuse the file because of one field.

        Raises: InputFileError: always.
        """
        if len(problem) > _MOST_CHARACTERS:
            problem = f"{problem[: _MOST_CHARACTERS // 2]} ... {problem[-_MOST_CHARACTERS // 2 :]}"
        raise InputFileError(
            f"{self.file}: field '{self.prefix}{field}' {on_one_line(problem)}",
            why="the model's shape cannot be read from this file",
            fix=fix or f"correct '{self.prefix}{field}'",
            hint=hint,
        )

    def _present(self, names: tuple[str, ...]) -> str | None:
        return next((name for name in names if self.values.get(name) is not None), None)

    def _check_minimum(self, name: str, value: object, minimum: int) -> int:
        if isinstance(value, list) and value and all(each == value[0] for each in value):
            value = value[0]  # one entry per layer, all equal
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(name, f"is {value!r}, not a whole number")
        largest = _MOST_LAYERS if name.endswith(_LAYERS) else _LARGEST_COUNT
        if not minimum <= value <= largest:
            self.fail(name, f"is {value}, outside {minimum}..{largest}")
        return value


def is_pasted(text: str) -> bool:
    """Whether a text is that of a config.json, not its path."""
    return text.lstrip().startswith("{")


def read_config(path: str | Path) -> ConfigFields:
    """Return the fields of a config.json, given as the file, as its folder or as its text; sections are completed by
    the defaults of their classes.

    Raises: InputFileError: the file is missing, unreadable, not JSON, or not an object.
    Source: layout of Hugging Face model repositories.
    """
    pasted = str(path) if is_pasted(str(path)) else None
    file = Path(PASTED if pasted else path)
    if not pasted and file.is_dir():
        file = file / "config.json"
    try:
        values = parsed_json(pasted or read_text(file))
    except InputFileError as error:
        raise InputFileError(
            error.what, why=error.why, fix="give the path of a config.json or of the folder that holds it"
        ) from None
    except (
        ValueError,
        RecursionError,
    ) as error:  # no JSON, an integer of thousands of digits, or nested without end
        place = (
            f"line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        )
        raise InputFileError(
            f"{file} is not JSON",
            why=f"{getattr(error, 'msg', 'nested too deeply or with numbers too long')} {place}".strip(),
            fix="give the config.json of the model, not its weights or tokenizer",
        ) from None
    if not isinstance(values, dict):
        raise InputFileError(
            f"{file} does not hold a JSON object",
            why=f"its top level is a {type(values).__name__}",
            fix="give the config.json of the model",
        )
    completed, told = with_class_defaults(values)
    return ConfigFields(completed, str(file), defaults_told=told)

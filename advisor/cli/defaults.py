"""Defaults of options from the environment (ADVISOR_PRICE_FILE) and from advisor.toml: a flag wins over both.

The user's own advisor.toml counts in every folder, and a folder's wins over it. In a file, a key is an option's name
without dashes; at the top it counts for every command that has the option, in a table named after a command for that
one: [recommend], [catalog.prices].
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from advisor.ask.options import Effect
from advisor.catalog.errors import InputFileError
from advisor.catalog.home import expand_home
from advisor.cli.command import COMMANDS

FILE_NAME: Final = "advisor.toml"
FILE_VARIABLE: Final = "ADVISOR_CONFIG"
PREFIX: Final = "ADVISOR_"
USER_FOLDER: Final = "ai-hardware-advisor"
"""Folder of the user's own file below the folder of configurations, as of the cache."""
OTHER_VARIABLES: Final = frozenset({FILE_VARIABLE, "ADVISOR_CACHE_DIR", "ADVISOR_SHARED_DATA"})
"""Variables of the program that are no options."""
TRUST: Final = "trust-config"
"""The option that lets the file set options with an effect besides reading."""
_NEVER: Final = frozenset({"help", "version"})
_FALSE: Final = frozenset({"", "0", "false", "no", "off"})


class _Known(NamedTuple):
    """An option as the command line declares it."""

    is_flag: bool
    effect: Effect | None


@dataclass(frozen=True, slots=True)
class Default:
    """A default that a file or an environment variable sets."""

    command: tuple[str, ...]
    option: str
    """Name of the option without dashes: `price-file`."""
    value: object
    origin: str
    """The file, or the variable."""
    effect: Effect | None = None
    """Effect of the option besides asking; None if it has none."""
    is_own: bool = False
    """Whether the user's own file sets it, which is trusted as what is typed."""

    @property
    def needs_trust(self) -> bool:
        """Whether a folder's file sets an option that does more than ask and read."""
        acts = self.effect not in (None, Effect.READS)
        return acts and not self.is_own and self.origin != _variable(self.option)

    @property
    def words(self) -> str:
        """Return the value as the file writes it."""
        return str(self.value).lower() if isinstance(self.value, bool) else str(self.value)


@dataclass(frozen=True, slots=True)
class Defaults:
    """Defaults of all commands, and variables that no command knows."""

    values: tuple[Default, ...] = ()
    unknown_variables: tuple[str, ...] = ()

    def as_map(self, *, is_trusted: bool) -> dict[str, Any]:
        """Return the defaults nested by command, as the parser expects them, without those that only a trusted file may
        set."""
        found: dict[str, Any] = {}
        for default in self.values:
            if default.needs_trust and not is_trusted:
                continue
            level = found
            for name in default.command:
                level = level.setdefault(name, {})
            level[_parameter(default.option)] = default.value
        return found

    def in_use(self, arguments: Sequence[str]) -> list[Default]:
        """Return the defaults that count for a command line: those of its command that are not typed there."""
        path: list[str] = []
        commands = {default.command for default in self.values}
        for word in arguments:
            if any(command[: len(path) + 1] == (*path, word) for command in commands):
                path.append(word)
        typed = {word.split("=")[0] for word in arguments}
        if any(word.startswith("-o") for word in arguments):
            typed.add("--output")
        return [d for d in self.values if d.command == tuple(path) and f"--{d.option}" not in typed]


def sets_an_option(variable: str) -> bool:
    """Whether an environment variable may set an option or name the file of defaults."""
    return variable.startswith(PREFIX) and (variable == FILE_VARIABLE or variable not in OTHER_VARIABLES)


def given_defaults(root: Any, environment: Mapping[str, str], folder: Path) -> Defaults:
    """Return the defaults that files and environment set for the tree of commands under `root`.

    Raises: InputFileError: the file is missing where it is named, is no TOML, or sets what no command has.
    """
    paths = default_files(environment, folder)
    variables = {k: v for k, v in environment.items() if k.startswith(PREFIX) and k not in OTHER_VARIABLES}
    if not paths and not variables:
        return Defaults()
    options = dict(_options(root, ()))
    found: dict[tuple[tuple[str, ...], str], Default] = {}
    own = user_file(environment)
    for path in paths:
        from advisor.catalog.files import read_toml

        for default in _of_table(read_toml(path), (), options, path):
            found[default.command, default.option] = replace(default, is_own=path == own)
    unknown = []
    for variable, text in sorted(variables.items()):
        option = variable.removeprefix(PREFIX).lower().replace("_", "-")
        commands = [command for command, names in options.items() if option in names]
        if not commands:
            unknown.append(variable)
        for command in commands:
            known = options[command][option]
            value = text.lower() not in _FALSE if known.is_flag else text
            found[command, option] = Default(command, option, value, variable, known.effect)
    return Defaults(tuple(found.values()), tuple(unknown))


def is_trusted(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether the user said that the file may set every option."""
    return f"--{TRUST}" in arguments or environment.get(_variable(TRUST), "").lower() not in _FALSE


def check_trust(counting: Iterable[Default]) -> None:
    """Refuse a file that is not trusted and sets an option with an effect besides reading.

    Raises: InputFileError: it does.
    """
    for default in counting:
        if default.needs_trust and default.effect is not None:
            raise InputFileError(
                f"{default.origin}: {default.option} = {default.words}",
                why=f"--{default.option} {default.effect.value}, which a file in a folder may not set",
                fix=f"type --{default.option} yourself, or --{TRUST} if the file is yours",
            )


def _variable(option: str) -> str:
    return PREFIX + option.upper().replace("-", "_")


def user_file(environment: Mapping[str, str]) -> Path:
    """Return the place of the user's own file: below XDG_CONFIG_HOME, or below .config in the home folder."""
    base = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return expand_home(base) / USER_FOLDER / FILE_NAME


def default_files(environment: Mapping[str, str], folder: Path) -> tuple[Path, ...]:
    """Return the files of defaults, the one that wins last: the user's and the folder's, or the one that is named."""
    named = environment.get(FILE_VARIABLE)
    if named:
        return (Path(named),)
    return tuple(path for path in (user_file(environment), folder / FILE_NAME) if path.is_file())


def _options(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], dict[str, _Known]]]:
    """Yield every command with its options by name without dashes."""
    for name, child in getattr(command, "commands", {}).items():
        yield from _options(child, (*path, name))
    found = COMMANDS.get(" ".join(path))
    effects = found.effects if found is not None else {}
    names = {
        text.lstrip("-"): _Known(bool(getattr(parameter, "is_flag", False)), effects.get(parameter.name))
        for parameter in command.params
        for text in parameter.opts
        if text.startswith("--")
    }
    names = {name: known for name, known in names.items() if name not in _NEVER}
    if path and names:
        yield path, names


def _of_table(
    table: Mapping[str, Any],
    command: tuple[str, ...],
    options: Mapping[tuple[str, ...], Mapping[str, _Known]],
    path: Path,
) -> Iterator[Default]:
    """Yield a table's own keys first, so that those of the tables in it win."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            continue
        option = key.replace("_", "-")
        if option == TRUST:
            raise InputFileError(f"{path}: {key}", why="no file can vouch for itself", fix=f"type --{TRUST}")
        takers = [one for one in options if one[: len(command)] == command and option in options[one]]
        if not takers:
            raise _unknown(
                path, ".".join((*command, key)), {name for names in options.values() for name in names}
            )
        for one in takers:
            yield Default(one, option, _value(value), str(path), options[one][option].effect)
    for key, value in table.items():
        if isinstance(value, Mapping):
            inner = (*command, key)
            if not any(one[: len(inner)] == inner for one in options):
                raise _unknown(path, f"[{'.'.join(inner)}]", {" ".join(one) for one in options})
            yield from _of_table(value, inner, options, path)


def _value(value: object) -> object:
    """Return a value as typed: lists are joined with commas."""
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _parameter(option: str) -> str:
    return option.replace("-", "_")


def _unknown(path: Path, key: str, known: set[str]) -> InputFileError:
    from advisor.catalog.resolve import near_misses

    return InputFileError(
        f"{path}: {key}",
        why="no option and no command has that name",
        fix="write an option's name without dashes, in a table named after its command or before all tables",
        hint=", ".join(near_misses(key.split(".")[-1].strip("[]"), sorted(known), {})),
    )

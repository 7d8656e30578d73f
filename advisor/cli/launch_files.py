"""Start commands in the files that hold them: compose files, Kubernetes manifests, llama-swap, Modelfiles, scripts."""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import read_text

_YAML: Final = (".yaml", ".yml")
_COMMANDS: Final = ("entrypoint", "command", "args", "cmd")
"""Keys of a container's words in the order in which they are joined: compose, Kubernetes, llama-swap (cmd)."""
_DEFAULT: Final = re.compile(r"\$\{(\w+):?-([^}]*)\}")
"""A variable of a shell or compose file with the value that stands for it where it is not set."""
_FROM: Final = re.compile(r"^FROM[ \t]+(\S+)", re.MULTILINE | re.IGNORECASE)
_BUILDS: Final = re.compile(r"^(?:RUN|COPY|CMD|ENTRYPOINT|WORKDIR)\s", re.MULTILINE)
"""Instructions of a Dockerfile, which also begins with FROM."""
_CONTEXT: Final = re.compile(r"^PARAMETER[ \t]+num_ctx[ \t]+(\d+)", re.MULTILINE | re.IGNORECASE)


def is_launch_file(argument: str) -> bool:
    """Whether a word names a file that may hold a start command."""
    path = Path(argument)
    named = path.suffix in (*_YAML, ".sh") or path.name.startswith("Modelfile")
    return named and path.is_file()


def start_commands(path: Path) -> Iterator[list[str]]:
    """Yield the words of each command in a file; few of them start an engine.

    Raises: InputFileError: the file cannot be read, or is not YAML.
    Source: compose specification (services), Kubernetes (Container), mostlygeek/llama-swap (models.cmd, macros), Ollama
        (Modelfile).
    """
    text = read_text(path)
    if path.name.startswith("Modelfile"):
        if (model := _FROM.search(text)) and not _BUILDS.search(text):
            context = _CONTEXT.search(text)
            yield ["ollama", "run", model[1], *([f"--max-model-len={context[1]}"] if context else [])]
    elif path.suffix in _YAML:
        try:
            documents = list(yaml.safe_load_all(text))
        except (yaml.YAMLError, RecursionError) as error:
            raise InputFileError(
                f"{path}: is not YAML", why=" ".join(str(error).split())[:200], fix="correct it"
            ) from None
        for document in documents:
            macros = document.get("macros") if isinstance(document, Mapping) else None
            yield from _container_commands(document, macros if isinstance(macros, Mapping) else {})
    else:
        yield from (_words(line) for line in text.replace("\\\n", " ").splitlines())


def options_of_file(path: Path) -> list[str]:
    """Return the options of an engine's file of options (`--config`) as words of its command.

    Raises: InputFileError: the file cannot be read, or is no mapping in YAML.
    """
    try:
        found = yaml.safe_load(read_text(path))
    except (yaml.YAMLError, RecursionError):
        found = None
    if not isinstance(found, Mapping):
        raise InputFileError(
            f"{path}: is not a file of options", why="no mapping in YAML", fix="--config FILE"
        )
    plain = ((str(name).replace("_", "-"), value) for name, value in found.items() if value is not None)
    words = (
        (f"--{name}", value)
        for name, value in plain
        if not isinstance(value, dict | list | bool) or value is True
    )
    return [word if value is True else f"{word}={value}" for word, value in words]


def _container_commands(found: Any, macros: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield the words of each container in a document: its variables, its command, and its image before that."""
    if isinstance(found, list):
        for one in found:
            yield from _container_commands(one, macros)
    if not isinstance(found, Mapping):
        return
    words = [word for key in _COMMANDS for word in _words_in(found.get(key), macros)]
    image = found.get("image")
    if words:
        variables = _variables(found.get("environment", found.get("env")))
        yield [*variables, *words]
        if isinstance(image, str):
            yield [*variables, _set(image, macros), *words]
    for value in found.values():
        yield from _container_commands(value, macros)


def _words_in(value: Any, macros: Mapping[str, Any]) -> list[str]:
    """Return the words of a command, be it one text or a list; a text behind a shell's -c is split too."""
    if isinstance(value, str):
        return _words(_set(value, macros))
    if not isinstance(value, list):
        return []
    words = [_set(str(one), macros) for one in value]
    is_shell = any(re.fullmatch(r"-\w*c", word) for word in words) or len(words) == 1
    return [part for word in words for part in (_words(word) if is_shell or "\n" in word else [word])]


def _variables(value: Any) -> list[str]:
    """Return the variables of a container as NAME=value."""
    if isinstance(value, Mapping):
        return [f"{name}={one}" for name, one in value.items()]
    rows = value if isinstance(value, list) else []
    return [
        f"{row.get('name')}={row.get('value', '')}" if isinstance(row, Mapping) else str(row) for row in rows
    ]


def _set(text: str, macros: Mapping[str, Any]) -> str:
    """Return a text with its macros and the defaults of its variables in place."""
    for name, value in macros.items():
        text = text.replace(f"${{{name}}}", str(value))
    return _DEFAULT.sub(r"\2", text)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError:
        return text.split()

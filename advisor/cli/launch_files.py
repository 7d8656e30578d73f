"""Start commands in what wraps them: containers, manifests, charts, units, scripts, files of settings and notebooks.

Each wrapping is read into words of a command, so that the readers of options need not know what it was.
"""

import configparser
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import read_text
from advisor.catalog.programs import WORDS, EngineProgram, all_programs, kebab, name_at
from advisor.cli.engine_words import plain_signs
from advisor.cli.launchers import is_file, variables_of_job
from advisor.cli.python_source import commands_of_python
from advisor.cli.shell_text import ASSIGNED, JOINED, Variables, expand, variables_in, whole_lines

_NAMES: Final = re.compile(
    r".*\.(?:ya?ml|sh|bash|sbatch|bat|ps1|py|ipynb|service|container|env|properties|toml|ini|kcpps|hcl|tf|md|pbtxt)|(?:.*[._-])?(?:Dockerfile|"
    r"Containerfile|Modelfile|Makefile|Procfile|Justfile)(?:[._-].*)?|\.env.*|CMD_FLAGS\.txt",
    re.IGNORECASE,
)
"""Names of files that may hold a start command, where a command takes files of results too."""
_COMMANDS: Final = (
    *("entrypoint", "command", "args", "cmd", "dockerargs", "startcommand", "run", "onstart", "userdata"),
)
"""Keys of a container's words in the order in which they are joined: compose, Kubernetes, ECS, llama-swap, SkyPilot."""
_SCRIPTS: Final = ("commands", "script", "processes")
"""Keys of lines of a shell, in a list or by name: dstack, GitLab, Fly."""
_VARIABLES: Final = ("environment", "env", "envs", "variables", "extraenv")
_IMAGES: Final = ("image", "imagename")
_LISTED: Final = re.compile(r"(?<=\s)\[(?=[A-Za-z/][^\]\n]*\s--?[A-Za-z])(.*)\](?=\s*$)")
"""Command in brackets at the end of a line of a log."""
_LONGEST_ROW: Final = 20_000
"""Longest row of a text that people write or a launcher prints [characters]."""
_ANSWER: Final = re.compile(r'\s*\{\s*"schema_version"\s*:')
_SHELL_LINE: Final = re.compile(r"^(?P<indent>[ \t]*)[!%](?=[\w./])(?:[^\n]*\\\n)*[^\n]*$", re.MULTILINE)
"""Line of a notebook for a shell or for the notebook itself, with the lines that it goes on in."""
_CELL_MAGIC: Final = re.compile(r"\s*%%(?P<name>[\w!]+)")
_PLAIN_MAGICS: Final = ("capture", "time", "timeit", "prun", "debug")
"""Magics of a cell of Python; the cell of any other is none."""
_HERE_DOCUMENT: Final = re.compile(
    r"^[ \t]*(?:cat|tee)\b[^\n]*?(?:<<-?[ \t]*['\"]?(?P<end>\w+)['\"]?[ \t]*>+[ \t]*(?P<behind>[^\s'\"]+)"
    r"|>*[ \t]*['\"]?(?P<file>[^\s'\"<>]+)['\"]?[ \t]*<<-?[ \t]*['\"]?(?P<mark>\w+)['\"]?)[^\n]*\n"
    r"(?P<body>.*?)^[ \t]*(?:(?P=mark)|(?P=end))[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
"""File that a script writes from lines of its own: cat > FILE <<EOF."""
_ECHOED: Final = re.compile(
    r"^[ \t]*(?:echo|printf)[ \t]+(?:-\w+[ \t]+)?(?P<quote>['\"])(?P<body>[^'\"]*)(?P=quote)"
    r"[ \t]*>+[ \t]*(?P<file>[^\s'\"]+)",
    re.MULTILINE,
)
"""File that a script writes from one text: echo -e "a: 1\\nb: 2" > FILE."""
_BLOCK: Final = re.compile(r"\b(\w+)\s*=\s*(\[[^\[\]]*\]|\"(?:[^\"\\\n]|\\.)*\")")
"""Field of a block of Terraform or Nomad: a text, or a list of texts."""
_PARAMETER_OF_TRITON: Final = re.compile(
    r'\bkey\s*:\s*"(?P<key>[^"]+)"[\s,]*value\s*:?\s*\{\s*string_value\s*:\s*"(?P<value>[^"]*)"'
    r'|^(?P<field>[a-z_]+)\s*:\s*"?(?P<plain>[^\s"{}\[\]]+)"?[ \t]*$',
    re.MULTILINE,
)
"""Parameter, or field of one line, of Triton's config.pbtxt."""
_QUOTED_MAPPING: Final = re.compile(r"'(\{[^']*\})'")
"""Mapping in JSON that a script quotes."""
_FROM: Final = re.compile(r"^FROM[ \t]+(\S+)", re.MULTILINE | re.IGNORECASE)
_BUILDS: Final = re.compile(r"^(?:RUN|COPY|CMD|ENTRYPOINT|WORKDIR|ENV|EXPOSE)\s", re.MULTILINE)
"""Instructions of a Dockerfile, which also begins with FROM."""
_SETS: Final = re.compile(r"^(?:ENV|ARG)[ \t]+(.+)$", re.MULTILINE)
_PARAMETER: Final = re.compile(r"^PARAMETER[ \t]+(num_\w+)[ \t]+(\d+)", re.MULTILINE | re.IGNORECASE)
OPERATOR: Final = re.compile(r"[|&;]+|[(){}]")
"""Word with which the command of a shell ends."""
_SHELL: Final = re.compile(r"(?:\S*/)?(?:env|exec|(?:ba|z|da)?sh)")
_UNIT: Final = re.compile(r"^(?:ExecStart=[-@:+!]*|Exec=)(.+)$", re.MULTILINE)
_OF_UNIT: Final = re.compile(r"^(?:Environment|Image)=(.+)$", re.MULTILINE)
_SECTION: Final = re.compile(r"^\[.+\][ \t]*$", re.MULTILINE)
_MOST_CHARACTERS: Final = 200_000
"""Longest text in which start commands are looked for."""
_LONGEST_COMMAND: Final = 4096
"""Longest text in a document that is looked at as a command [characters]."""
_MOST_WORDS: Final = 5
"""Most words that start a program."""
_LEAST_KNOWN: Final = 2
"""Least number of options of a program that a mapping has, if it holds settings of that program."""

_Read = Callable[[str], Any]


_ACCELERATOR: Final = re.compile(
    r"(?:accelerators?|accelerator_type|gpu_?type|gpu|gpu\.product|gke-accelerator|gpu_name)[\"']?"
    r"(?:\s*[:=]|\s*,?\s*[\"']?operator[\"']?\s*:\s*[\"']?In[\"']?\s*,?\s*[\"']?values[\"']?\s*:\s*[\[-])\s*(?:\{\s*(?:name:\s*)?)?"
    r"(?:f?[\"'])?(?P<name>[A-Za-z][\w.-]*[A-Za-z0-9])(?:[\"']?\s*:\s*(?P<count>\d+))?",
    re.IGNORECASE,
)
"""The accelerator that SkyPilot, dstack, Modal, Ray, BentoML or a node selector asks for."""


def accelerator_in(text: str) -> str:
    """Return the first accelerator of the catalog that whatever wraps a command asks for; empty if there is none."""
    from advisor.catalog import accelerators

    for found in _ACCELERATOR.finditer(text):
        if (record := accelerators.find(found["name"])) is not None:
            return record.id
    machines = {name.lower() for name in _RENTED.findall(text)}
    return _accelerator_of_machines(machines) if machines else ""


_RENTED: Final = re.compile(
    r"(?:instance|machine)[-_.]?(?:family|type)[\"']?"
    r"(?:\s*[:=]|\s*\n?\s*operator:\s*In\s*\n?\s*values:\s*[\[-])\s*[\"']?([a-z][\w.-]*\d[\w.-]*)",
    re.IGNORECASE,
)
"""Type of a rented machine, or the family of its types, that a node selector or a file of machines names."""


def _accelerator_of_machines(machines: Collection[str]) -> str:
    """Return the one accelerator that rented machines of these types or families have; empty if none is known."""
    from advisor.catalog.prices import rented_machines

    found = {
        id_
        for (_, sku), (id_, _) in rented_machines().items()
        if sku.lower() in machines or sku.lower().partition(".")[0] in machines
    }
    return found.pop() if len(found) == 1 else ""


def _set_by_job(text: str) -> dict[str, str]:
    """Return the variables by which jobs tell their commands how many accelerators they have."""
    found = _ACCELERATOR.search(text)
    count = found["count"] if found else None
    own = dict.fromkeys(("SKYPILOT_NUM_GPUS_PER_NODE", "DSTACK_GPUS_NUM"), count) if count else {}
    return own | variables_of_job(text)


def is_launch_file(argument: str, *, takes_files: bool) -> bool:
    """Whether a word names a file that may hold a start command: any file, unless the command takes others too."""
    return (not takes_files or _NAMES.fullmatch(Path(argument).name) is not None) and is_file(argument)


def commands_in(text: str, path: Path | None = None) -> Iterator[list[str]]:
    """Yield the words of each command in a text, whose form its content shows; most start no engine.

    The name of its file may add what it is, and a file `.env` in its folder sets variables, as compose reads it.

    Raises: InputFileError: the name says YAML, TOML, INI or JSON and it is none.
    Source: specifications of compose (services), Kubernetes (Container), systemd (service), Dockerfile and Modelfile;
        mostlygeek/llama-swap (models.cmd, macros), SkyPilot (run, envs), charts of vLLM's production stack and KServe.
    """
    text = plain_signs(text)
    suffix = path.suffix.lower() if path else ""
    beside = path.with_name(".env") if path else None
    variables = _set_by_job(text)
    if beside and beside != path and beside.is_file():
        variables |= variables_in(read_text(beside), {})
    text, shell = python_and_shell(text) if suffix == ".ipynb" or is_notebook(text) else (text, "")
    if len(text) > _MOST_CHARACTERS:
        raise InputFileError(
            f"{path or 'the text'}: too long for a start command",
            why=f"{len(text):,} characters, of at most {_MOST_CHARACTERS:,}",
            fix="paste the command alone",
        )
    found = commands_of_python(text)
    if found is not None:
        for one in found:
            if isinstance(one, dict):
                yield from _of_document(one, variables)
            else:
                yield from [one] if isinstance(one, list) else _of_script(one, variables)
        yield from _of_script(shell, variables)
    elif shell:
        yield from _of_script(shell, variables)
    elif _FROM.search(text):
        yield from (_of_dockerfile(text, variables) if _BUILDS.search(text) else _of_modelfile(text))
    elif _UNIT.search(text):
        yield from _of_unit(text)
    elif "string_value" in text:
        found_in = _PARAMETER_OF_TRITON.finditer(text)
        yield from _of_settings(
            {one["key"] or one["field"]: one["value"] if one["key"] else one["plain"] for one in found_in}
        )
    elif (documents := _documents(text, suffix, str(path))) is not None:
        for document in documents:
            yield from _of_document(document, variables)
    elif any(_fold(name) in _COMMANDS and raw.startswith("[") for name, raw in _BLOCK.findall(text)):
        yield from _of_blocks(text, variables)
    else:
        yield from _of_script(text, variables)
        lines = [line for line in whole_lines(text).splitlines() if line.strip()]
        if lines and all(line.lstrip().startswith("-") for line in lines):  # options alone: CMD_FLAGS.txt
            yield from _of_settings(dict(_pairs([word for line in lines for word in _words(line)])))


def options_of_file(path: Path) -> list[str]:
    """Return the options of an engine's file of options (`--config`) as words of its command.

    Raises: InputFileError: the file cannot be read, or is no mapping.
    """
    return _options_in(read_text(path), str(path))


def _options_in(text: str, name: str) -> list[str]:
    found = next((each for each in _documents(text, ".yaml", name) or ()), None)
    if not isinstance(found, Mapping):
        raise InputFileError(f"{name}: is not a file of options", why="no mapping in it", fix="--config FILE")
    return _as_words(_leaves(found))


def _documents(text: str, suffix: str, name: str) -> list[Any] | None:
    """Return the documents of a text in JSON, TOML, INI or YAML; None for any other text.

    Raises: InputFileError: the suffix says that it is one of them, and it is not.
    """
    forms: dict[str, _Read] = {"YAML": lambda text: list(yaml.safe_load_all(text))}
    if text.lstrip()[:1] in ("{", "["):
        forms = {"JSON": lambda text: [json.loads(text)], **forms}
    if _SECTION.search(text):
        forms = {"TOML": lambda text: [tomllib.loads(text)], "INI": _sections, **forms}
    named = {".yml": "YAML", ".kcpps": "JSON"}.get(suffix, suffix.removeprefix(".").upper())
    problem: Exception | None = None
    for form, read in forms.items():
        if named in ("YAML", "JSON", "TOML", "INI") and form != named:
            continue
        try:
            found = read(text)
        except (ValueError, yaml.YAMLError, configparser.Error, RecursionError) as error:
            problem = error
            continue
        if any(isinstance(document, Mapping | list) for document in found):
            return list(found)
    if problem is not None and named in ("YAML", "JSON", "TOML", "INI"):
        raise InputFileError(
            f"{name}: is not {named}", why=" ".join(str(problem).split())[:200], fix="correct it"
        )
    return None


def _sections(text: str) -> list[dict[str, str]]:
    """Return the sections of a file of presets, each with the values that hold for all."""
    parser = configparser.ConfigParser(
        interpolation=None, strict=False, default_section="*", delimiters=("=",)
    )
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(text if text.lstrip().startswith("[") else f"[head]\n{text}")
    return [dict(parser[name]) for name in parser.sections()]


def _of_document(document: Any, variables: Variables) -> Iterator[list[str]]:
    """Yield the commands for which values of a chart stand, those of the containers in a document, then those for which
    other settings in it stand."""
    images = set(_images_in(document))
    yield from _of_chart(document, variables)
    yield from _of_containers(document, variables, images.pop() if len(images) == 1 else "")
    yield from _of_settings(document)
    yield from (line for text in _commands_anywhere(document) for line in _of_script(text, variables))


def _commands_anywhere(found: Any) -> Iterator[str]:
    """Yield the texts of a document, whatever their keys are, that begin with the start of a program."""
    if isinstance(found, str) and len(found) <= _LONGEST_COMMAND:
        words = found.split()
        starts = (" ".join(words[:count]) for count in range(1, min(len(words), _MOST_WORDS + 1)))
        if any(program.pattern.fullmatch(start) for start in starts for program in all_programs().values()):
            yield found
    for value in found.values() if isinstance(found, Mapping) else found if isinstance(found, list) else ():
        yield from _commands_anywhere(value)


def _of_chart(document: Any, variables: Variables) -> Iterator[list[str]]:
    """Yield the command of each program that a chart or a resource names a model for, at the places of its options."""
    if not isinstance(document, Mapping):
        return
    stated = [f"{name}={value}" for name, value in _variables_of(document, variables).items()]
    for program in all_programs().values():
        words: list[str] = []
        for place, option in program.places.items():
            value = next(_at(document, place.split(".")), None)
            if option.startswith("=") and value is not None and str(value).casefold() != option[1:]:
                words = []
                break
            if option.startswith("="):
                continue
            many = value if isinstance(value, list) else [value]
            words += (
                map(str, filter(None, many))
                if option == WORDS
                else _as_words([(option, one) for one in many[:1]])
            )
        if any(word.startswith("--model=") for word in words):
            yield [*stated, *program.command.split(), *words]


def _at(found: Any, keys: list[str]) -> Iterator[Any]:
    """Yield the values at nested keys of a document, in each element of the lists on the way."""
    if not keys:
        yield found
    elif isinstance(found, list):
        for one in found:
            yield from _at(one, keys)
    elif isinstance(found, Mapping) and keys[0] in found:
        yield from _at(found[keys[0]], keys[1:])


def _fold(name: object) -> str:
    """Return a key without the case and the signs in which formats differ: dockerArgs and docker_args are one."""
    return re.sub(r"[_-]", "", str(name)).casefold()


def _by_folded_name(found: Mapping[str, Any]) -> dict[str, Any]:
    return {_fold(name): value for name, value in found.items()}


def _variables_of(found: Mapping[str, Any], outer: Variables) -> dict[str, str]:
    """Return the variables that a container states."""
    fields = _by_folded_name(found)
    stated: dict[str, str] = {}
    for key in _VARIABLES:
        stated |= _variables(fields.get(key), outer)
    return stated


def _images_in(found: Any) -> Iterator[str]:
    """Yield the images that a document names at any depth."""
    if isinstance(found, Mapping) and (image := _image(found)):
        yield image
    for value in found.values() if isinstance(found, Mapping) else found if isinstance(found, list) else ():
        yield from _images_in(value)


def _of_containers(found: Any, variables: Variables, only: str = "") -> Iterator[list[str]]:
    """Yield the words of each container in a document: its variables, its image, and its command behind them.

    The `only` image of a document is that of commands elsewhere in it."""
    if isinstance(found, list):
        for one in found:
            yield from _of_containers(one, variables, only)
    if not isinstance(found, Mapping):
        return
    fields = _by_folded_name(found)
    macros = found.get("macros")
    stated = _variables_of(found, variables)
    own = {**variables, **(macros if isinstance(macros, Mapping) else {}), **stated}
    image = _image(found)
    before = [f"{name}={value}" for name, value in stated.items()]
    mounts = list(_mounts_of(fields.get("volumes"), own))
    before += ["docker", *mounts] if mounts and (image or only) else []
    before += [expand(image or only, own)] if image or only else []
    lines = [_lines_of_command(fields.get(key), own) for key in _COMMANDS]
    if all(len(each) <= 1 for each in lines):
        words = [word for each in lines for line in each for word in line]
        if words or image or stated:
            yield [*before, *words]
    else:
        yield from ([*before, *line] for each in lines for line in each)
    for key in _SCRIPTS:
        text = fields.get(key)
        text = list(text.values()) if isinstance(text, Mapping) else text
        script = "\n".join(map(str, text)) if isinstance(text, list) else text
        if isinstance(script, str):
            yield from ([*before, *line] for line in _of_script(script, own))
    for value in found.values():
        yield from _of_containers(value, own, only)


def _mounts_of(volumes: Any, variables: Variables) -> Iterator[str]:
    """Yield the folders of a machine that a container has under other names, as options of docker write them."""
    for one in volumes if isinstance(volumes, list) else ():
        pair = f"{one.get('source')}:{one.get('target')}" if isinstance(one, Mapping) else str(one)
        yield f"-v={expand(pair, variables)}"


def _image(found: Mapping[str, Any]) -> str:
    """Return the image of a container, which charts divide into repository and tag; empty if there is none."""
    fields = _by_folded_name(found)
    image = next((fields[key] for key in _IMAGES if isinstance(fields.get(key), str)), None)
    if isinstance(image, str):
        return image
    parts = found["image"] if isinstance(found.get("image"), Mapping) else found
    repository = parts.get("repository")
    tag = parts.get("tag")
    if not isinstance(repository, str):
        return ""
    return f"{repository}:{tag}" if tag else repository


def _lines_of_command(value: Any, variables: Variables) -> list[list[str]]:
    """Return the lines of a command, be it one text or a list of words; a text behind a shell's -c is a script."""
    if isinstance(value, str):
        return list(_of_script(value, variables))
    if not isinstance(value, list) or any(isinstance(one, Mapping | list) for one in value):
        return []
    texts = [str(one) for one in value]
    shell = next((place for place, text in enumerate(texts) if re.fullmatch(r"-\w*c", text)), None)
    is_shell = shell is not None and _SHELL.fullmatch(texts[0]) is not None
    if is_shell and shell is not None:
        texts = texts[shell + 1 :]
    if is_shell or len(texts) == 1 or any("\n" in text for text in texts):
        return [line for text in texts for line in _of_script(text, variables)]
    return [[expand(text, variables) for text in texts]] if texts else []


def _variables(value: Any, outer: Variables) -> dict[str, str]:
    """Return the variables of a container, which a mapping or a list of NAME=value or of name and value states."""
    if isinstance(value, Mapping):
        pairs = list(value.items())
    else:
        rows = value if isinstance(value, list) else []
        pairs = [
            (row.get("name", row.get("key")), row.get("value", ""))
            if isinstance(row, Mapping)
            else str(row).partition("=")[::2]
            for row in rows
        ]
    return {
        str(name): expand(str(one), outer)
        for name, one in pairs
        if name and not isinstance(one, Mapping | list) and one is not None
    }


def _of_settings(found: Any) -> Iterator[list[str]]:
    """Yield the commands for which mappings with options of one program stand, nested or not."""
    if isinstance(found, list):
        for one in found:
            yield from _of_settings(one)
    if not isinstance(found, Mapping):
        return
    leaves = _leaves(found)
    program = _program_of({name for name, _ in leaves})
    if program is not None:
        image = _image(found)
        known = [(name, value) for name, value in leaves if program.knows(name) or name.startswith("-")]
        yield [*([image] if image else []), *program.command.split(), *_as_words(known)]
        return
    for value in found.values():
        yield from _of_settings(value)


def _program_of(names: set[str]) -> EngineProgram | None:
    """Return the program of whose options a file of settings has the most, with a word that is its own; else None."""
    rated = {
        program.id: sum(program.knows(name) for name in names)
        for program in all_programs().values()
        if names.intersection(program.settings)
    }
    best = max(rated, key=lambda name: rated[name], default="")
    return all_programs()[best] if best and rated[best] >= _LEAST_KNOWN else None


def _leaves(found: Mapping[str, Any], outer: tuple[str, ...] = ()) -> list[tuple[str, Any]]:
    """Return the names and values of nested mappings, without lists of mappings; words in a list count as they are."""
    leaves: list[tuple[str, Any]] = []
    for name, value in found.items():
        if isinstance(value, Mapping):
            leaves += _leaves(value, (*outer, kebab(str(name))))
        elif (
            isinstance(value, list)
            and value
            and all(isinstance(one, str) for one in value)
            and value[0].startswith("-")
        ):
            leaves += _pairs(value)
        elif not isinstance(value, list):
            leaves.append((name_at((*outer, kebab(str(name)))), value))
    return leaves


def _pairs(words: list[str]) -> list[tuple[str, Any]]:
    """Return the options of a list of words, each with the value behind it."""
    pairs: list[tuple[str, Any]] = []
    for word in words:
        name, equals, value = word.partition("=")
        if word.startswith("-"):
            pairs.append((kebab(name), value if equals else True))
        elif pairs:
            pairs[-1] = (pairs[-1][0], word)
    return pairs


def _as_words(pairs: list[tuple[str, Any]]) -> list[str]:
    """Return options with their values as words of a command; what is off or without a value has none."""
    return [
        f"--{name}" if value is True or value == "true" else f"--{name}={value}"
        for name, value in pairs
        if value is not None and value is not False and value not in ("", "false", "null")
    ]


def _of_blocks(text: str, variables: Variables) -> Iterator[list[str]]:
    """Yield the words of each container in blocks of HCL; a field that comes again is that of the next container."""
    found: dict[str, Any] = {}
    for name, raw in _BLOCK.findall(text):
        try:
            value = json.loads(re.sub(r",\s*\]", "]", raw))
        except ValueError:  # an expression
            continue
        if name in found and _fold(name) in (*_IMAGES, *_COMMANDS):
            yield from _of_containers(found, variables)
            found = {}
        found[name] = value
    yield from _of_containers(found, variables)


def _of_dockerfile(text: str, variables: Variables) -> Iterator[list[str]]:
    """Yield the command of a Dockerfile: its variables, its last image, its entry point and the words behind it."""
    joined = JOINED.sub(" ", text)
    pairs = [word for line in _SETS.findall(joined) for word in _words(line)]
    stated = {**dict(pair.split("=", 1) for pair in pairs if "=" in pair), **variables}
    images = _FROM.findall(joined)
    words: list[str] = []
    for starts in ("ENTRYPOINT", "CMD"):
        found = re.findall(rf"^{starts}[ \t]+(.+)$", joined, re.MULTILINE)
        words += [word for line in _exec_form(found[-1], stated) for word in line] if found else []
    yield [*(f"{name}={value}" for name, value in stated.items()), expand(images[-1], stated), *words]


def _exec_form(text: str, variables: Variables) -> list[list[str]]:
    """Return the lines of an instruction, which are a list in JSON or words of a shell."""
    try:
        words = json.loads(text)
    except ValueError:
        words = text
    return _lines_of_command(words, variables)


def _of_modelfile(text: str) -> Iterator[list[str]]:
    """Yield the command for which a Modelfile of Ollama stands."""
    model = _FROM.search(text)
    assert model is not None
    stated = _as_words([(kebab(name), value) for name, value in _PARAMETER.findall(text)])
    yield ["ollama", "run", model[1], *stated]


def _of_unit(text: str) -> Iterator[list[str]]:
    """Yield the commands of a unit of systemd or Podman with the variables that it sets."""
    joined = JOINED.sub(" ", text)
    stated = [word for line in _OF_UNIT.findall(joined) for word in _words(line)]
    variables = dict(word.split("=", 1) for word in stated if "=" in word)
    stated.sort(key=lambda word: "=" not in word)  # the image stands before its command
    for line in _UNIT.findall(joined):
        yield [*stated, *_words(expand(line, variables))]


def _of_script(text: str, variables: Variables) -> Iterator[list[str]]:
    """Yield the words of each line of a script with its variables in place; those of an engine are named in front.

    A text of nothing but variables, as env files are, is one line.
    """
    written = {found["file"] or found["behind"]: found["body"] for found in _HERE_DOCUMENT.finditer(text)}
    for found in _ECHOED.finditer(text):
        written[found["file"]] = found["body"].replace("\\n", "\n")
    joined = whole_lines(_HERE_DOCUMENT.sub("", text))
    stated = {**variables, **variables_in(joined, variables)}
    own = {name: value for name, value in stated.items() if name not in variables}
    before = [f"{name}={value}" for name, value in own.items()]
    lines = [line for line in ASSIGNED.sub("", joined).splitlines() if line.strip()]
    if not lines and own:
        yield from ([*before], *_of_settings(own))
    for line in lines:
        words = _with_written_files(_words(expand(line, stated)), written)
        yield from ([*before, *each] for each in _split_at_operators(words))
        shell = next((place for place, word in enumerate(words) if _SHELL.fullmatch(word)), None)
        inner = words[shell + 2 : shell + 3] if shell is not None else []
        if inner and re.fullmatch(r"-\w*c", words[words.index(inner[0]) - 1]):
            yield from ([*before, *each] for each in _of_script(inner[0], stated))
    yield from _of_settings(list(_requests_in(text)))


def _requests_in(text: str) -> Iterator[Any]:
    """Yield the bodies of requests in JSON that a script quotes."""
    for found in _QUOTED_MAPPING.finditer(text):
        try:
            yield json.loads(found[1])
        except (ValueError, RecursionError):
            continue


def _with_written_files(words: list[str], written: Mapping[str, str]) -> list[str]:
    """Return the words of a command with the options of a file that its script writes in place of the file's name."""
    for place, word in enumerate(words):
        _, equals, value = word.partition("=")
        file = value if equals else word
        file = file if file in written else file.removeprefix("./")
        if file in written and (equals or (place and words[place - 1].startswith("-"))):
            options = _options_in(written[file], file)
            return [*words[: place if equals else place - 1], *options, *words[place + 1 :]]
    return words


def _split_at_operators(words: list[str]) -> list[list[str]]:
    """Return the commands of a line: `a & b && c` are three."""
    commands: list[list[str]] = [[]]
    for word in words:
        if OPERATOR.fullmatch(word):
            commands.append([])
        else:
            commands[-1].append(word.removesuffix(";"))
    return [each for each in commands if each]


def has_long_row(text: str) -> bool:
    """Whether a row of a text is longer than any that people write: patterns take the square of a row's time."""
    return max(map(len, text.splitlines()), default=0) > _LONGEST_ROW


def is_answer(text: str) -> bool:
    """Whether a text is an answer that advisor saved: its launch commands are a part of it, not what it states."""
    return _ANSWER.match(text) is not None


def is_notebook(text: str) -> bool:
    """Whether a text is a notebook, or Python with lines for a shell as notebooks have them."""
    return '"cell_type"' in text or _SHELL_LINE.search(text) is not None


def python_and_shell(text: str) -> tuple[str, str]:
    """Return the Python of a notebook, and its lines for a shell with the names that are assigned in it."""
    try:
        cells = json.loads(text).get("cells", [])
    except (ValueError, AttributeError, RecursionError):
        return _python_and_shell(text)
    sources = ["".join(cell.get("source", "")) for cell in cells if isinstance(cell, Mapping)]
    parts = [_python_and_shell(source) for source in sources]
    return "\n".join(python for python, _ in parts), "\n".join(shell for _, shell in parts)


def _python_and_shell(source: str) -> tuple[str, str]:
    """Return the Python of a cell, without its lines for a shell, and those lines with its assignments."""
    if magic := _CELL_MAGIC.match(source):
        rest = source.partition("\n")[2]
        if magic["name"] not in _PLAIN_MAGICS:
            return "", rest  # a script, or a file that the notebook writes
        source = rest
    shell = [found[0].lstrip()[1:] for found in _SHELL_LINE.finditer(source)]
    assigned = [found[0] for found in ASSIGNED.finditer(source)] if shell else []
    return _SHELL_LINE.sub(r"\g<indent>pass", source), "\n".join((*assigned, *shell))


def _words(text: str) -> list[str]:
    """Return the words of a line; what holds a path of Windows keeps its backslashes."""
    text = _LISTED.sub(r"\1", text)
    is_windows = re.search(r"[A-Za-z]:\\|%\w+%|\.exe\b", text) is not None
    try:
        words = shlex.split(text, comments=True, posix=not is_windows)
    except ValueError:
        words = text.split()
    return [word.strip("\"'") for word in words] if is_windows else words

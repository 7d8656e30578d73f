"""Start command of an engine pasted behind a command of this program: its words as options of the command."""

import difflib
import functools
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from advisor.ask.measures import parse_count
from advisor.catalog import accelerators, engines, models
from advisor.catalog.dtypes import cached_value_bytes, joined_cache, known_cache, known_dtype
from advisor.catalog.errors import AdvisorError, InputFileError, UnknownNameError
from advisor.catalog.files import read_text
from advisor.catalog.programs import EngineProgram, all_programs, kebab
from advisor.cli.engine_words import (
    STATED_BY_A_COMMAND,
    is_option,
    own_option,
    own_value,
    places_of_lone_words,
    plain_integer,
)
from advisor.cli.pasted_speculation import PastedSpeculation

_LEVEL: Final = re.compile(r"-O\d")
"""vLLM's level of compilation, which joins its value."""
_LAUNCHERS: Final = frozenset(
    (
        *("apptainer", "docker", "kubectl", "nerdctl", "podman", "singularity", "srun", "uv", "uvx"),
        *("env", "nohup", "numactl", "sudo", "taskset", "time"),
    )
)
"""Programs that start another one: their own words, up to the engine's, say nothing about the plan."""
_RELEASE: Final = re.compile(r"[^:]+:v?(\d+\.\d+\.\d+)\S*")
"""Image of a container whose tag is the engine's release."""
_VERSIONED: Final = re.compile(
    r"(?<!\S)(?P<package>[A-Za-z][\w.-]*)(?:\[\S*\])?(?:@|==)v?(?P<release>\d[\w.]*)(?!\S)"
)
"""Package with its release, as uvx and pip write it: vllm@0.11.0, vllm==0.11.0."""
_MOST_WORDS: Final = 5
_MOST_PATH: Final = 4096
"""Longest path of a file [characters]."""
_VARIABLE: Final = re.compile(r"(?:-e|--env=|-e=)?([A-Za-z_]\w*=.*)", re.DOTALL)
_OPERATOR: Final = re.compile(r"[|&;]+|\d?>.*|[(){}]")
"""Word with which the command of a shell ends."""
_STARTS_IMAGE: Final = re.compile(r"-|[\w.-]+/[\w.-]+$|/(?!\S*(?:bin/|\.(?:sh|py)$))")
"""First word behind the image of a container that starts its engine: an option, a repository, or the model's folder."""
_MOUNT: Final = re.compile(r"(?:-v=?|--volume=)?(?P<outside>[^:=,\s]+):(?P<inside>/[^:=,\s]*)(?::\w+)?")
"""Folder of a machine that a container has under another name."""
_PLACEHOLDER: Final = re.compile(r"^(?:<[^<>]*>|\{\{[^{}]*\}\})[\\/]?")
"""Word in brackets for a folder or a name that a reader fills in."""
_NO_NAME: Final = re.compile(r"[\[\]{}\"'=$<>|]")
"""Signs that no name of a model has."""
_MODEL: Final = ("model-source", "model", "model-path", "model-id", "hf-repo", "")
"""Words for the model, from the one that says most; the last is that of a lone word."""
_FILE_OF_MODEL: Final = "hf-file"
_SIZE_OF_MODEL: Final = "model-size"
"""Word for the size of a model in billions of parameters, where its name has none."""
_LOADER: Final = "loader"
_OWN_ALONE: Final = "--gpu"
"""Option that is this program's wherever it stands, since no engine has it."""
_SEARCH: Final = "--use-case"
"""Option of the command that searches for a layout itself."""
_DEGREES: Final = frozenset(("--tp", "--pp", "--dp", "--ep"))
_CACHE: Final = "--kv-precision"
_OFF: Final = ("false", "0", "no", "off")
_LEFT_TO_THE_ENGINE: Final = ("auto", "-1")
"""Values of numbers that leave the choice to the engine. Source: vLLM, human_readable_int_or_auto; server arguments of
SGLang and llama.cpp."""
_NAMES_A_CHOICE: Final = (_CACHE, "--gpu-layers")
"""Options of this program with values of their own for what the engine chooses: the usual cache, and all layers."""
"""Values of variables and settings that leave a flag off."""
_CONTEXT: Final = ("--context", "--max-model-len", "--max-context")


class _Start(NamedTuple):
    front: tuple[str, ...]
    """Words that were typed in front of the command and whatever launches it."""
    program: EngineProgram
    words: tuple[str, ...]
    """Words behind the program, and the options for which its variables stand."""
    release: str = ""
    mounts: tuple[tuple[str, str], ...] = ()
    """Folders in its container with those of the machine."""

    def outside(self, path: str) -> str:
        """Return the path on the machine of one in the container; any other text as it is."""
        for inside, outside in self.mounts:
            if path == inside or path.startswith(f"{inside}/"):
                return outside + path.removeprefix(inside)
        return path


def with_pasted_command(
    arguments: Sequence[str], known: Collection[str], flags: Collection[str] = ()
) -> tuple[list[str], tuple[str, ...]]:
    """Return what was typed with the start command of an engine in it as options of the command, and notes about it.

    `known` are the options of the command, and the names of its arguments; `flags` are the options without a value.
    What is typed in front of the pasted command counts before it. Options that say nothing about the plan, such as
    ports and names, are left out and named in a note.

    Raises: AdvisorError: the command chooses a deployment by itself, or a count of tokens is malformed.
    Source: options of the engines' releases, data/support/flags.csv.
    """
    start = _find_start(arguments)
    notes: list[str] = []
    if start is not None and _SEARCH in known and _names_hardware(start):
        return list(arguments), ()  # a question that begins as a command does
    if start is None:
        start, notes = _find_in_files(arguments, known, flags)
    if start is None:
        return list(arguments), ()
    start = _with_own_in_front(start, known, flags)
    program = start.program
    if "--tp" not in known:
        raise AdvisorError(
            f"a command of {program.id} is not taken here",
            why="this command chooses layout and settings by itself",
            fix="advisor memory --gpu ID, or advisor simulate serve --gpu ID, before the pasted command",
        )
    lone = [] if _takes_files(known) else places_of_lone_words(start.front, flags)
    typed = list(start.front[: lone[0]] if lone else start.front)  # a lone word is that of a launcher
    given = {word.partition("=")[0] for word in typed}
    found = _read_options(start, known)
    said = found.said
    _check_is_planned(found.engine, given)
    if unset := [own for own in found.unset if own in known and own not in given and own not in said]:
        raise AdvisorError(
            f"the command has {found.unset[unset[0]]}, whose number nothing says",
            why="the plan is of as many accelerators as share the model",
            fix=f"{unset[0]} N in front of the command",
        )
    model = start.outside(_PLACEHOLDER.sub("", _name_of_model(found.names)))
    is_unset = model.rpartition("/")[2].startswith("$")
    if _name_of_model(found.names) and (is_unset or not model) and "--model" not in given:
        raise AdvisorError(
            f"the command has {_name_of_model(found.names)} where its model stands",
            why="nothing sets that variable" if is_unset else "a placeholder names no model",
            fix="--model NAME in front of the command",
        )
    if model:
        said["--model"] = _planned_name(model, program)
        key, _, file_format = said["--model"].partition("@")
        if program.usual_format and _is_format(file_format):
            said |= {"--model": key, "--precision": file_format}
        elif program.usual_format and "--precision" not in given and _states_no_format(key):
            said.setdefault("--precision", program.usual_format)
            notes.append(
                f"{program.command} names no format: {program.usual_format} is taken, --precision says another"
            )
    if program.tower_option and _loads_one_file(start, found.names):
        said.setdefault("--language-model-only", "")
    if found.engine == "llama.cpp":
        _divide_among_slots(said, known, each_has_all=program.slots == "whole")
    if start.release and program.takes_value and "--engine-version" in known:
        said.setdefault("--engine-version", start.release)
    said.setdefault("--engine", found.engine)
    for name, value in said.items():
        if name in flags and value.lower() in _OFF:
            continue
        if name in known and name not in given and own_option(name, known) not in given:
            typed += [name, value] if value and name not in flags else [name]
    return typed, (*notes, *_notes(found, program))


def _names_hardware(start: _Start) -> bool:
    """Whether words behind the model of a pasted command name an accelerator, as those of a question do."""
    words = [value or "" for name, value in _options_of(start) if not name][1:]
    spans = (
        " ".join(words[place : place + count]).strip(".,:;?!()")
        for place in range(len(words))
        for count in range(1, _MOST_WORDS_OF_HARDWARE + 1)
    )
    return any(
        accelerators.find(text.removesuffix("s")) or accelerators.find(text)
        for text in spans
        if len(text) > 1
    )


_MOST_WORDS_OF_HARDWARE: Final = 3


def _with_own_in_front(start: _Start, known: Collection[str], flags: Collection[str]) -> _Start:
    """Return a pasted command without this program's own options behind it, which then stand in front: those that the
    engine's release does not have."""
    program = start.program
    words = list(start.words)
    own: list[str] = []
    kept: list[str] = []
    while words:
        word = words.pop(0)
        name, equals, _ = word.partition("=")
        is_engines = not program.takes_value or name in program.takes_value or program.knows(kebab(name))
        is_engines = is_engines or name in STATED_BY_A_COMMAND  # another release may have it
        if name not in known or not is_option(name) or (is_engines and name != _OWN_ALONE):
            kept.append(word)
            continue
        own.append(word)
        if not equals and name not in flags and words:
            own.append(words.pop(0))
    return start._replace(front=(*own, *start.front), words=tuple(kept))


_KEYS: Final = "kv-cache-keys"
_VALUES: Final = "kv-cache-values"
_ATTENTION: Final = "flash-attn"
_USUAL_HALF: Final = "fp16"
"""Format of keys, and of values, that llama.cpp keeps unless told otherwise."""
_SPECULATIVE: Final = "--speculative"
_PLACES: Final = "--host-experts"
"""Option whose rules, PATTERN=PLACE, a command may give in several options (llama.cpp, -ot)."""


class _Options(NamedTuple):
    """Options of a start command."""

    engine: str
    said: dict[str, str]
    """Values by this program's options."""
    names: dict[str, str]
    """Names of the model and its file by the words for them."""
    left: list[str]
    """Options that say nothing about the plan."""
    unknown: list[str]
    """Options among them that the engine's release does not have."""
    guessing: list[str]
    """Options of a speculative decoding whose method is not known."""
    unset: dict[str, str]
    """Degrees of parallelism whose variables nothing sets, with their words, by this program's options."""

    def say(self, own: str, value: str) -> None:
        """Keep the value of this program's option, the first one that is stated; rules of places add up."""
        if own == _PLACES and "=" in value and "=" in self.said.get(own, ""):
            self.said[own] += f",{value}"
        else:
            self.said.setdefault(own, value)

    def leave(self, typed: str, value: str, own: str) -> None:
        """Keep an option whose variable nothing sets; `own` is this program's option for it."""
        self.left.append(f"{typed} {value}")
        if own in _DEGREES:
            self.unset[own] = f"{typed} {value}"


def _read_options(start: _Start, known: Collection[str]) -> _Options:
    """Return what the options of a command say in this program's words."""
    program = start.program
    found = _Options(program.engine, {}, {}, [], [], [], {})
    typed_names = {word.partition("=")[0] for word in start.words}
    halves: dict[str, str] = {}
    guessing = PastedSpeculation()
    for typed, value in _options_of(start):
        name = program.words.get(kebab(typed), program.whole_option(kebab(typed)))
        if _SPECULATIVE in known and value and typed and guessing.take(typed, name, value):
            continue
        if name in (*_MODEL, _FILE_OF_MODEL, _SIZE_OF_MODEL):
            found.names.setdefault(name, value or "")
            continue
        if name == _LOADER and value and value in program.engines:
            found = found._replace(engine=program.engines[value])
        if name == "tensor-split" and value and re.search(r"\d[,/ ]", value):
            found.said.setdefault("--pp", str(len(re.findall(r"[1-9]\d*(?:\.\d+)?|0\.\d*[1-9]", value))))
        if value and value.startswith("$"):  # a variable that nothing sets
            found.leave(typed, value, _translate(name, "", known)[0])
            continue
        if name == "host-experts" and not value:
            value = "all"
        value = program.values.get(kebab(typed), {}).get(value or "", value)
        if name in (_KEYS, _VALUES, _ATTENTION) and value:
            halves.setdefault(name, value.lower())
        if name in (_KEYS, _VALUES) and _CACHE in known:
            continue
        own, translated = _translate(name, value or "", known)
        is_searched = own in _DEGREES and _SEARCH in known
        is_told = own in known and own in STATED_BY_A_COMMAND and not is_searched
        if is_told and own not in _NAMES_A_CHOICE and translated.lower() in _LEFT_TO_THE_ENGINE:
            found.left.append(f"{typed} {value}")
        elif is_told and (own != "--precision" or _is_format(translated)):
            found.say(own, translated)
        elif name in program.config and value and not Path(value).is_file():
            found.left.append(f"{typed} {value}, which is not on this machine,")
        elif name not in (_LOADER, program.tower_option, *program.config):
            found.left.append(typed)
            options = program.takes_value
            is_known = (
                typed not in typed_names
                or program.knows(name)
                or name != kebab(typed)
                or typed in options
                or _LEVEL.fullmatch(typed)
                or not options
            )
            found.unknown.extend([] if is_known else [typed])
    found.said.update(guessing.options())
    if _SPECULATIVE not in found.said:
        found.guessing.extend(guessing.unread())
    if _KEYS in halves or _VALUES in halves:
        found.said.setdefault(_CACHE, _cache_of_halves(halves))
    if "--enable-dp-attention" in found.said and "--tp" in found.said:
        # TensorRT-LLM has as many attention ranks as accelerators.
        found.said.setdefault("--dp", found.said["--tp"])
    return found


def _cache_of_halves(said: Mapping[str, str]) -> str:
    """Return the format of a cache from the options for its keys and its values.

    Raises: AdvisorError: values are quantised without flash attention. UnknownNameError: there is no such format.
    """
    keys, values = (known_cache(said.get(half, _USUAL_HALF))[0] or _USUAL_HALF for half in (_KEYS, _VALUES))
    if said.get(_ATTENTION) in _OFF and cached_value_bytes(values) < cached_value_bytes("fp16"):
        raise AdvisorError(
            f"llama.cpp does not keep values of a cache in {values} without flash attention",
            why="it refuses to start: quantised values are read by flash attention alone",
            fix="-fa on in the pasted command, or -ctv f16",
        )
    return joined_cache(keys, values)


def _what_is_said(start: _Start) -> frozenset[tuple[str, str]]:
    """Return program and options of a command, however they are written, without variables that nothing sets."""
    pairs = ((name, value or "") for name, value in _options_of(start))
    return frozenset((("", start.program.id), *(pair for pair in pairs if not pair[1].startswith("$"))))


def _names_model(start: _Start) -> bool:
    """Whether a command says which model it starts."""
    names = (start.program.words.get(kebab(name), kebab(name)) for name, _ in _options_of(start))
    return any(name in _MODEL for name in names)


def _name_of_model(named: Mapping[str, str]) -> str:
    """Return the model that the options name, with the file of its repository behind a colon; empty if none does."""
    model = next((named[word] for word in _MODEL if named.get(word)), "")
    if model and (size := named.get(_SIZE_OF_MODEL)):
        model = f"{model}-{size.replace('_', '.')}b"
    file = named.get(_FILE_OF_MODEL, "").strip("*")
    return f"{model}:{file}" if model and file else model or file


def _loads_one_file(start: _Start, named: Mapping[str, str]) -> bool:
    """Whether a command loads the file of a model alone: one from a hub brings its towers along."""
    from_hub = any(named.get(word) for word in ("hf-repo", "model-source", "model-id"))
    names_towers = any(kebab(name) == start.program.tower_option for name, _ in _options_of(start))
    return _name_of_model(named).endswith(".gguf") and not from_hub and not names_towers


def _planned_name(model: str, program: EngineProgram) -> str:
    """Return the name under which the model of a command is planned."""
    name = models.name_in_path(model)
    return models.with_default_tag(name) if program.has_library and not models.is_path(name) else name


def _states_no_format(model: str) -> bool:
    """Whether a name means a model of the catalog in the 16 bits of its training, none of its quantised files."""
    record = models.find(model)
    return record is not None and not record.checkpoint and record.weights in ("bf16", "fp16")


def _translate(name: str, value: str, known: Collection[str]) -> tuple[str, str]:
    """Return an engine's option, without the hyphens in front, and its value in this program's words."""
    if name == "ctx-size":
        return next((each for each in _CONTEXT if each in known), ""), value
    if name == "parallel":
        return "--max-num-seqs", value
    own = next((each for each in (f"--{name}", f"-{name}") if own_option(each, known) in known), f"--{name}")
    own = own_option(own, known)
    translated = own_value(own, plain_integer(f"--{name}", value))
    if own == "--swap-space" and translated.isdigit():
        translated += "GiB"  # vLLM counts it in GiB
    return own, translated


def _check_is_planned(engine: str, given: Collection[str]) -> None:
    """Refuse the command of an engine that the catalog does not have, unless another engine was named for it."""
    if engine not in engines.all_ids() and "--engine" not in given:
        raise AdvisorError(
            f"nothing is planned with {engine}",
            why="the catalog does not have that engine",
            fix="--engine vllm before the pasted command: the same model and settings under vLLM",
        )


def _find_in_files(
    arguments: Sequence[str], known: Collection[str], flags: Collection[str]
) -> tuple[_Start | None, list[str]]:
    """Return the first start command in a file or a text that was given instead of one, and a note if it holds others.

    Raises: AdvisorError: a file of a command that takes no other files has none.
    """
    takes_files = _takes_files(known)
    if takes_files and _SEARCH not in known and len(places_of_lone_words(arguments, flags)) == 1:
        return None, []  # the command's own file, which may show the command that started the server
    for place, argument in enumerate(arguments):
        before = arguments[place - 1] if place else ""
        if is_option(argument) or (is_option(before) and "=" not in before and before not in flags):
            continue
        # They load readers of YAML and Python, which no typed command needs.
        from advisor.cli import launch_files

        is_file = launch_files.is_launch_file(argument[:_MOST_PATH], takes_files=False)
        is_text = (len(argument.split()) > 1 and not is_file) or argument.startswith("{")
        if not is_text and not launch_files.is_launch_file(argument, takes_files=takes_files):
            continue
        path = None if is_text else Path(argument)
        text = read_text(path) if path else argument
        try:
            found = [start for words in launch_files.commands_in(text, path) if (start := _find_start(words))]
        except InputFileError:
            if takes_files:
                continue  # the command's own reader of that file says what is wrong
            raise
        shown = "the text" if is_text else argument
        if found:
            found = [start for start in found if _names_model(start)] or found
            found.sort(key=lambda start: start.program.engine not in engines.all_ids())
        if "--engine" not in known:  # a script of training loads its model with such a library too
            found = [start for start in found if start.program.engine in engines.all_ids()]
        if found:
            others = sum(
                1 for said in {_what_is_said(start) for start in found} if not said <= _what_is_said(found[0])
            )
            notes = [f"{shown}: the first of {1 + others} start commands is taken"] if others else []
            front = [*arguments[:place], *arguments[place + 1 :]]
            if "--gpu" in known and not any(word.startswith("--gpu") for word in front):
                asked = launch_files.accelerator_in(text)
                front += ["--gpu", asked] if asked else []
                notes += [f"{shown}: asks for {asked}"] if asked else []
            release = found[0].release or _installed_release(text, found[0].program.engine)
            return found[0]._replace(front=tuple(front), release=release), notes
        if not takes_files and "--tp" in known and not (path is None and _is_sentence(text, known)):
            raise AdvisorError(
                f"{shown}: no start command of an engine in it",
                why="it names no program, image or setting of an engine that is known",
                fix="paste the command itself, or name the file that holds it",
            )
    return None, []


def options_of_commands(text: str, known: Collection[str]) -> Iterator[dict[str, str]]:
    """Yield the options for which each start command of an engine in a text stands.

    Raises: AdvisorError: the text is longer than one that people paste.
    """
    from advisor.cli import launch_files

    for words in launch_files.commands_in(text):
        start = _find_start(words)
        if start is None or start.program.engine not in engines.all_ids():
            continue
        found = _read_options(start, known)
        model = start.outside(_PLACEHOLDER.sub("", _name_of_model(found.names)))
        named = {"--model": _planned_name(model, start.program)} if model else {}
        release = {"--engine-version": start.release} if start.release and start.program.takes_value else {}
        yield {**named, "--engine": found.engine, **release, **found.said}


def starts_an_engine(text: str, path: Path) -> bool:
    """Whether a file holds a start command of an engine. Raises: InputFileError: its name says another form."""
    from advisor.cli import launch_files

    return any(_find_start(words) is not None for words in launch_files.commands_in(text, path))


def _installed_release(text: str, engine: str) -> str:
    """Return the release of an engine that a text installs; empty if it installs none, or whichever is newest."""
    found = re.search(
        rf"\bpip3?\s+install\b[^\n]*?\b{re.escape(engine)}(?:\[[^\]\s]*\])?[\"']?==v?(\d[\w.]*)", text
    )
    return found[1] if found else ""


def _is_sentence(text: str, known: Collection[str]) -> bool:
    """Whether a text may be a question in words, for a command that takes one."""
    return _SEARCH in known and not re.search(r"\n|--|[{}=]", text)


def _takes_files(known: Collection[str]) -> bool:
    """Whether a command has arguments, as those do that take files of results."""
    return any(not name.startswith("-") for name in known)


def _find_start(arguments: Sequence[str]) -> _Start | None:
    """Return the start command of an engine, be it words of their own or one quoted word, behind any launcher.

    An image of a container counts where no program is named behind it.
    """
    words: list[str] = []
    for argument in arguments:
        words += _split_if_command(argument)
    found = [
        (program, place, count)
        for place in range(len(words))
        for count in range(min(len(words) - place, _MOST_WORDS), 0, -1)
        if (program := _program_started_by(" ".join(words[place : place + count]))) is not None
    ]
    if not found:
        return None
    images = [one for one in found if one[2] == 1 and _is_image(words[one[1]])]
    program, place, count = next((one for one in found if one not in images), found[0])
    first = images[0][1] if images and images[0][1] < place else place
    launcher = next((at for at, word in enumerate(words[:first]) if word in _LAUNCHERS), first)
    while launcher and _VARIABLE.fullmatch(words[launcher - 1]):
        launcher -= 1
    release = next((tag[1] for one in images if (tag := _RELEASE.fullmatch(words[one[1]]))), "")
    for word in words[launcher : place + count]:
        if (stated := _VERSIONED.fullmatch(word)) and stated["package"] == program.engine:
            release = stated["release"]
    rest = [word for word in words[place + count :] if word.strip() and word != "\\"]
    end = next((at for at, word in enumerate(rest) if _OPERATOR.fullmatch(word)), len(rest))
    if (program, place, count) in images and rest[:1] and not _STARTS_IMAGE.match(rest[0]):
        return None  # the container runs another program
    options = (*rest[:end], *_of_variables(program, words[launcher:place]), *_in_image(program, words[place]))
    mounts = tuple(
        (mount["inside"].rstrip("/"), mount["outside"].rstrip("/"))
        for word in words[launcher:place]
        if (mount := _MOUNT.fullmatch(word))
    )
    return _Start(tuple(words[:launcher]), program, options, release, mounts)


def _is_image(word: str) -> bool:
    return any(re.fullmatch(image, word) for program in all_programs().values() for image in program.images)


@functools.lru_cache(maxsize=4096)
def _program_started_by(text: str) -> EngineProgram | None:
    if '"' in text:  # a whole document without spaces
        return None
    text = _VERSIONED.sub(r"\g<package>", text)
    return next((each for each in all_programs().values() if each.pattern.fullmatch(text)), None)


def _split_if_command(argument: str) -> list[str]:
    """Return the words of a quoted command; any other argument as it is."""
    if " " not in argument.strip():
        return [argument]
    try:
        words = shlex.split(argument.replace("\\\n", " "))
    except ValueError:
        return [argument]
    program = next((at for at, word in enumerate(words) if not _VARIABLE.fullmatch(word)), len(words))
    places = range(
        program, len(words) if _LAUNCHERS.issuperset(words[program : program + 1]) else program + 1
    )
    texts = (" ".join(words[at : at + count]) for at in places for count in range(1, _MOST_WORDS + 1))
    return words if any(_program_started_by(text) for text in texts) else [argument]


def _of_variables(program: EngineProgram, words: Sequence[str]) -> Iterator[str]:
    """Yield the options for which variables of a program stand."""
    for word in words:
        found = _VARIABLE.fullmatch(word)
        name, _, value = found[1].partition("=") if found else ("", "", "")
        if value and (option := program.option_of_variable(name)):
            yield f"--{option}={value}"


def _in_image(program: EngineProgram, image: str) -> Iterator[str]:
    """Yield the option for the model that the image of a container has in it."""
    for pattern in program.images:
        if (found := re.fullmatch(pattern, image)) is not None and "model" in found.groupdict():
            yield f"--model={found['model']}"


def _options_of(start: _Start) -> Iterator[tuple[str, str | None]]:
    """Yield the options of a pasted command with their values; a lone word has no name.

    An option that the release does not have takes the word behind it as its value.
    """
    own = (f"--{name}={value}" for name, value in start.program.always.items())
    words = [*start.words, *_words_of_config(start), *own]
    options = start.program.takes_value
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            if not _NO_NAME.search(word):
                yield "", word
            continue
        name, equals, value = word.partition("=")
        long = start.program.words.get(kebab(name), "")
        takes = options.get(name, options.get(name.replace("-", "_").replace("__", "--", 1)))
        takes = options.get(f"--{long}", takes) if takes is None else takes
        if not equals and takes is not False and words and not is_option(words[0]):
            value = words.pop(0)
        yield name, value or None


def _words_of_config(start: _Start) -> list[str]:
    """Return the options of the file that --config names; what the command states itself counts before them."""
    from advisor.cli import launch_files

    words = start.words
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if kebab(name) in start.program.config and (equals or words[place + 1 : place + 2]):
            path = Path(value if equals else words[place + 1])
            return launch_files.options_of_file(path) if path.is_file() else []
    return []


def _divide_among_slots(said: dict[str, str], known: Collection[str], *, each_has_all: bool) -> None:
    """Give each of llama.cpp's slots its part of the context, or all of it as Ollama does; all are held at once, as the
    cache is allocated. A context of 0 is the model's own."""
    context = next((name for name in _CONTEXT if name in said), "")
    if context and said[context] == "0":
        said[context] = _whole_context(said.get("--model", ""))
    slots = int(said["--max-num-seqs"]) if said.get("--max-num-seqs", "").isdigit() else 1
    if context and slots > 1 and not each_has_all:
        said[context] = str(int(parse_count(said[context], "--ctx-size")) // slots)
    if slots > 1 and "--concurrency" in known:
        said["--concurrency"] = str(slots)


def _whole_context(model: str) -> str:
    """Return the longest context of a model.

    Raises: UnknownNameError: the catalog does not have the model.
    """
    return str(models.get(model).record.max_context_tokens)


def _is_format(name: str) -> bool:
    """Whether a word for a quantisation names one format, which the checkpoint need not say then."""
    try:
        known_dtype(name)
    except UnknownNameError:
        return False
    return True


def _notes(found: _Options, program: EngineProgram) -> Iterator[str]:
    if found.left:
        yield f"not part of the plan: {', '.join(dict.fromkeys(found.left))} of the {found.engine} command"
    if found.guessing:
        words = ", ".join(dict.fromkeys(found.guessing))
        yield (
            f"figures are without the speculative decoding of the command ({words}), whose method or draft is not "
            "known: --speculative METHOD says it"
        )
    for name in dict.fromkeys(found.unknown):
        near = difflib.get_close_matches(name, program.takes_value, n=1, cutoff=0.85)
        yield f"{found.engine} {program.options_release} has no option {name}" + (
            f": did you mean {near[0]}?" if near else ""
        )

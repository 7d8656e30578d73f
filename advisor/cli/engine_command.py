"""Start command of an engine pasted behind a command of this program: its words as options of the command."""

import difflib
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from advisor.ask.measures import parse_count
from advisor.catalog.dtypes import known_dtype
from advisor.catalog.errors import AdvisorError, UnknownNameError
from advisor.cli.engine_words import STATED_BY_A_COMMAND, own_option, own_value
from advisor.cli.launch_files import is_launch_file, options_of_file, start_commands

_PYTHON: Final = r"(?:\S*/)?python[\d.]*"
_OLLAMA: Final = "ollama"
_LEVEL: Final = re.compile(r"-O\d")
"""vLLM's level of compilation, which joins its value."""
_MLX_TOOL: Final = "mlx without a server"
_KOBOLD: Final = "koboldcpp"
_LLAMAFILE: Final = "llamafile"
_APHRODITE: Final = "aphrodite"
_ENGINES: Final = {
    _OLLAMA: "llama.cpp",
    _KOBOLD: "llama.cpp",
    _LLAMAFILE: "llama.cpp",
    _APHRODITE: "vllm",
    _MLX_TOOL: "mlx",
}
"""Engines by programs that run them with options of their own."""
_STARTS: Final = (
    ("vllm", r"(?:\S*/)?vllm serve"),
    ("vllm", rf"{_PYTHON} -m vllm\.entrypoints\.(?:openai\.)?api_server"),
    ("sglang", rf"{_PYTHON} -m sglang\.launch_server"),
    ("sglang", r"(?:\S*/)?sglang serve"),
    ("tensorrt-llm", r"(?:\S*/)?trtllm-serve(?: serve)?"),
    ("llama.cpp", r"(?:\S*/)?llama-(?:server|cli)"),
    ("lmdeploy", r"(?:\S*/)?lmdeploy serve api_server"),
    ("mlx", rf"(?:\S*/)?mlx_lm\.server|{_PYTHON} -m mlx_lm(?:\.| )server"),
    (_MLX_TOOL, rf"(?:\S*/)?mlx_lm\.(?:generate|chat)|{_PYTHON} -m mlx_lm(?:\.| )(?:generate|chat)"),
    (_OLLAMA, r"(?:\S*/)?ollama run"),
    ("tgi", r"(?:\S*/)?text-generation-launcher"),
    (_KOBOLD, rf"(?:\S*/)?koboldcpp(?:[-_][\w.-]+)?|{_PYTHON} (?:\S*/)?koboldcpp\.py"),
    (_LLAMAFILE, r"(?:\S*/)?llamafile(?:-[\d.]+)?(?:\.exe)?"),
    (_APHRODITE, r"(?:\S*/)?aphrodite (?:run|serve)"),
    ("vllm", rf"{_PYTHON} -m dynamo\.vllm"),
    ("sglang", rf"{_PYTHON} -m dynamo\.sglang"),
    ("tensorrt-llm", rf"{_PYTHON} -m dynamo\.trtllm"),
    ("vllm", r"(?:\S*/)?vllm-openai(?:-\w+)?(?::\S+)?"),
    ("llama.cpp", r"(?:\S*/)?llama\.cpp:server\S*"),
    (_KOBOLD, r"(?:\S*/)?koboldai/koboldcpp(?::\S+)?"),
    (_APHRODITE, r"(?:\S*/)?aphrodite-(?:engine|openai)(?::\S+)?"),
    ("lmdeploy", r"(?:\S*/)?openmmlab/lmdeploy(?::\S+)?"),
    ("tgi", r"(?:\S*/)?text-generation-inference(?::\S+)?"),
)
"""Words with which the start command of an engine begins, as a regular expression of words between single spaces; the
last are images of containers that start the engine themselves."""
_LAUNCHERS: Final = frozenset(
    (
        *("apptainer", "docker", "kubectl", "nerdctl", "podman", "singularity", "srun", "uv", "uvx"),
        *("env", "nohup", "numactl", "sudo", "taskset", "time"),
    )
)
"""Programs that start another one: their own words, up to the engine's, say nothing about the plan."""
_RELEASE: Final = re.compile(r"[^:]+:v?(\d+\.\d+\.\d+)\S*")
"""Image of a container whose tag is the engine's release."""
_MOST_WORDS: Final = 3
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_MODEL: Final = ("--model", "--model-path", "--model-id", "-m", "-hf", "-hfr", "--hf-repo")
_CONTEXT: Final = ("--context", "--max-model-len", "--max-context")
_LLAMA_CPP: Final = {
    "-c": "--ctx-size",
    "-np": "--parallel",
    "-ctk": "--kv-cache-dtype",
    "--cache-type-k": "--kv-cache-dtype",
    "-b": "--max-num-tokens",
    "--batch-size": "--max-num-tokens",
}
"""Long words, or those of other engines that mean the same, for llama.cpp's options."""
_OTHERS: Final[Mapping[str, Mapping[str, str]]] = {
    "llama.cpp": _LLAMA_CPP,
    _LLAMAFILE: _LLAMA_CPP,
    _KOBOLD: {"--contextsize": "--ctx-size", "--quantkv": "--kv-cache-dtype"},
    "lmdeploy": {
        "--session-len": "--max-model-len",
        "--quant-policy": "--kv-cache-dtype",
        "--model-format": "--quantization",
    },
    "tgi": {
        "--num-shard": "--tensor-parallel-size",
        "--max-total-tokens": "--max-model-len",
        "--quantize": "--quantization",
    },
}
"""Words of other engines that mean the same, by engine."""
_NUMBERED: Final[Mapping[str, Mapping[str, str]]] = {
    "--quantkv": {"0": "fp16", "1": "q8_0", "2": "q4_0"},
    "--quant-policy": {"0": "fp16", "4": "int4", "8": "int8"},
}
"""Formats of the cache by the numbers that stand for them. Source: options of KoboldCpp and LMDeploy."""
_CONFIG: Final = "--config"
_CONFIGURED: Final = ("vllm", "sglang", _APHRODITE)
"""Engines whose option --config names a file with further options."""
_OLLAMA_VARIABLES: Final = {
    "OLLAMA_CONTEXT_LENGTH": "--max-model-len",
    "OLLAMA_KV_CACHE_TYPE": "--kv-cache-dtype",
    "OLLAMA_NUM_PARALLEL": "--max-num-seqs",
}
"""Options by the variables in which Ollama takes them; each of its slots has the whole context."""


class _Start(NamedTuple):
    front: tuple[str, ...]
    """Words that were typed in front of the command and whatever launches it."""
    engine: str
    words: tuple[str, ...]
    """Words behind the program."""
    release: str = ""


def with_pasted_command(
    arguments: Sequence[str], known: Collection[str]
) -> tuple[list[str], tuple[str, ...]]:
    """Return what was typed with the start command of an engine in it as options of the command, and notes about it.

    `known` are the options of the command. What is typed in front of the pasted command counts before it. Options
    that say nothing about the plan, such as ports and names, are left out and named in a note.

    Raises: AdvisorError: the command chooses a deployment by itself, or a count of tokens is malformed.
    Source: options of the engines' releases, data/support/flags.csv.
    """
    notes: list[str] = []
    start = _find_start(arguments)
    if start is None:
        start, notes = _find_in_files(arguments)
    if start is None:
        return list(arguments), ()
    # They load the catalog, without which help appears at once.
    from advisor.catalog import models
    from advisor.catalog.launch_options import launch_options

    if "--tp" not in known:
        raise AdvisorError(
            f"a command of {start.engine} is not taken here",
            why="this command chooses layout and settings by itself",
            fix="advisor memory --gpu ID, or advisor simulate serve --gpu ID, before the pasted command",
        )
    typed = list(start.front)
    engine = _ENGINES.get(start.engine, start.engine)
    given = {word.partition("=")[0] for word in typed}
    _check_is_planned(engine, given)
    said: dict[str, str] = {}
    left: list[str] = []
    unknown: list[str] = []
    release = launch_options().get(start.engine)
    options = release.takes_value if release else {}
    for name, value in _options_of(start, options):
        if name == "" or name in _MODEL:
            said.setdefault("--model", models.name_in_path(value or ""))
            continue
        if name in ("-ts", "--tensor-split") and value and "," in value:
            said.setdefault("--pp", str(1 + value.count(",")))
            continue
        own, translated = _translate(name, value or "", known)
        is_told = own in known and own in STATED_BY_A_COMMAND
        if is_told and (own != "--precision" or _is_format(translated)):
            said.setdefault(own, translated)
        else:
            left.append(name)
            is_known = name in options or name.replace("-", "_") in options or _LEVEL.fullmatch(name)
            unknown += [] if is_known or not options else [name]
    if engine == "llama.cpp":
        _divide_among_slots(said, known, each_has_all=start.engine == _OLLAMA)
    if start.release and "--engine-version" in known:
        said.setdefault("--engine-version", start.release)
    said.setdefault("--engine", engine)
    for name, value in said.items():
        if name in known and name not in given and own_option(name, known) not in given:
            typed += [name, value] if value else [name]
    return typed, (*notes, *_notes(engine, left, unknown, release.release if release else "", options))


def _translate(name: str, value: str, known: Collection[str]) -> tuple[str, str]:
    """Return an engine's option and its value in this program's words."""
    own = own_option(name, known)
    if name == "--ctx-size":
        own = next((each for each in _CONTEXT if each in known), "")
    elif name == "--parallel":
        own = "--max-num-seqs"
    translated = own_value(own, value)
    if own == "--swap-space" and translated.isdigit():
        translated += "GiB"  # vLLM counts it in GiB
    return own, translated


def _check_is_planned(engine: str, given: Collection[str]) -> None:
    """Refuse the command of an engine that the catalog does not have, unless another engine was named for it."""
    from advisor.catalog import engines

    if engine not in engines.all_ids() and "--engine" not in given:
        raise AdvisorError(
            f"nothing is planned with {engine}",
            why="the catalog does not have that engine",
            fix="--engine vllm before the pasted command: the same model and settings under vLLM",
        )


def _find_in_files(arguments: Sequence[str]) -> tuple[_Start | None, list[str]]:
    """Return the first start command in a file that was named instead of one, and a note if it holds others."""
    for place, argument in enumerate(arguments):
        if (place and arguments[place - 1].startswith("-")) or not is_launch_file(argument):
            continue
        rest = arguments[place + 1 :]
        found = [start for words in start_commands(Path(argument)) if (start := _find_start(words))]
        if found:
            first = found[0]._replace(front=(*arguments[:place], *rest))
            others = len({start.words for start in found}) - 1
            return first, [f"{argument}: the first of {1 + others} start commands is taken"] if others else []
    return None, []


def _find_start(arguments: Sequence[str]) -> _Start | None:
    """Return the start command of an engine, be it words of their own or one quoted word, behind any launcher."""
    words: list[str] = []
    for argument in arguments:
        words += _split_if_command(argument)
    for place in range(len(words)):
        for engine, pattern in _STARTS:
            for count in range(min(len(words) - place, _MOST_WORDS), 0, -1):
                if not re.fullmatch(pattern, " ".join(words[place : place + count])):
                    continue
                before = words[:place]
                launcher = next((at for at, word in enumerate(before) if word in _LAUNCHERS), place)
                while launcher and _VARIABLE.fullmatch(words[launcher - 1]):
                    launcher -= 1
                image = _RELEASE.fullmatch(words[place])
                rest = [word for word in words[place + count :] if word.strip() and word != "\\"]
                if engine == _OLLAMA:
                    rest += _of_variables(words[launcher:place])
                return _Start(tuple(words[:launcher]), engine, tuple(rest), image[1] if image else "")
    return None


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
    return (
        words if any(re.fullmatch(pattern, text) for text in texts for _, pattern in _STARTS) else [argument]
    )


def _of_variables(words: Sequence[str]) -> Iterator[str]:
    """Yield the options for which variables of Ollama stand."""
    for word in words:
        name, _, value = word.partition("=")
        if name in _OLLAMA_VARIABLES:
            yield f"{_OLLAMA_VARIABLES[name]}={value}"


def _options_of(start: _Start, options: Mapping[str, bool]) -> Iterator[tuple[str, str | None]]:
    """Yield the options of a pasted command with their values; a lone word in front of them has no name.

    An option that the release does not have takes the word behind it as its value.
    """
    words = list(start.words)
    if start.engine in _CONFIGURED:
        words += _words_of_config(words)
    is_first = True
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            if is_first:
                yield "", word
            is_first = False
            continue
        is_first = False
        name, equals, value = word.partition("=")
        numbered = _NUMBERED.get(name, {})
        name = _OTHERS.get(start.engine, {}).get(name, name)
        takes = options.get(name, options.get(name.replace("-", "_").replace("__", "--", 1)))
        if not equals and takes is not False and words and not words[0].startswith("-"):
            value = words.pop(0)
        yield name, numbered.get(value, value) or None


def _words_of_config(words: Sequence[str]) -> list[str]:
    """Return the options of the file that --config names; what the command states itself counts before them."""
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == _CONFIG and (equals or words[place + 1 : place + 2]):
            return options_of_file(Path(value if equals else words[place + 1]))
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
    from advisor.catalog import models

    return str(models.get(model).record.max_context_tokens)


def _is_format(name: str) -> bool:
    """Whether a word for a quantisation names one format, which the checkpoint need not say then."""
    try:
        known_dtype(name)
    except UnknownNameError:
        return False
    return True


def _notes(
    engine: str, left: Sequence[str], unknown: Sequence[str], release: str, options: Mapping[str, bool]
) -> Iterator[str]:
    if left:
        yield f"not part of the plan: {', '.join(dict.fromkeys(left))} of the {engine} command"
    for name in dict.fromkeys(unknown):
        near = difflib.get_close_matches(name, options, n=1, cutoff=0.85)
        yield f"{engine} {release} has no option {name}" + (f": did you mean {near[0]}?" if near else "")

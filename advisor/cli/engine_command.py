"""Start command of an engine pasted behind a command of this program: its words as options of the command."""

import difflib
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from advisor.ask.measures import parse_count
from advisor.catalog.dtypes import known_dtype
from advisor.catalog.errors import AdvisorError, UnknownNameError
from advisor.cli.engine_words import STATED_BY_A_COMMAND, own_option, own_value

_PYTHON: Final = r"(?:\S*/)?python[\d.]*"
_STARTS: Final = (
    ("vllm", r"(?:\S*/)?vllm serve"),
    ("vllm", rf"{_PYTHON} -m vllm\.entrypoints\.(?:openai\.)?api_server"),
    ("sglang", rf"{_PYTHON} -m sglang\.launch_server"),
    ("sglang", r"(?:\S*/)?sglang serve"),
    ("tensorrt-llm", r"(?:\S*/)?trtllm-serve(?: serve)?"),
    ("llama.cpp", r"(?:\S*/)?llama-(?:server|cli)"),
    ("lmdeploy", r"(?:\S*/)?lmdeploy serve api_server"),
    ("mlx", rf"(?:\S*/)?mlx_lm\.server|{_PYTHON} -m mlx_lm(?:\.server| server)"),
)
"""Words with which the start command of an engine begins, as a regular expression of words between single spaces."""
_MOST_WORDS: Final = 3
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_MODEL: Final = ("--model", "--model-path", "-m", "-hf", "-hfr", "--hf-repo")
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


class _Start(NamedTuple):
    place: int
    """Index of the first word."""
    engine: str
    words: tuple[str, ...]
    """Words behind the program."""


def with_pasted_command(
    arguments: Sequence[str], known: Collection[str]
) -> tuple[list[str], tuple[str, ...]]:
    """Return what was typed with the start command of an engine in it as options of the command, and notes about it.

    `known` are the options of the command. What is typed in front of the pasted command counts before it. Options
    that say nothing about the plan, such as ports and names, are left out and named in a note.

    Raises: AdvisorError: the command chooses a deployment by itself, or a count of tokens is malformed.
    Source: options of the engines' releases, data/support/flags.csv.
    """
    start = _find_start(arguments)
    if start is None:
        return list(arguments), ()
    # It loads the catalog, without which help appears at once.
    from advisor.catalog.launch_options import launch_options

    if "--tp" not in known:
        raise AdvisorError(
            f"a command of {start.engine} is not taken here",
            why="this command chooses layout and settings by itself",
            fix="advisor memory --gpu ID, or advisor simulate serve --gpu ID, before the pasted command",
        )
    typed = list(arguments[: start.place])
    while typed and _VARIABLE.fullmatch(typed[-1]) and not typed[-1].startswith("-"):
        typed.pop()
    said: dict[str, str] = {}
    left: list[str] = []
    unknown: list[str] = []
    release = launch_options().get(start.engine)
    options = release.takes_value if release else {}
    for name, value in _options_of(start, options):
        if name == "" or name in _MODEL:
            said.setdefault("--model", value or "")
            continue
        own = own_option(name, known)
        if name == "--ctx-size":
            own = next((each for each in _CONTEXT if each in known), "")
        elif name == "--parallel":
            own = "--max-num-seqs"
        translated = own_value(own, value or "")
        if own == "--swap-space" and translated.isdigit():
            translated += "GiB"  # vLLM counts it in GiB
        is_told = own in known and own in STATED_BY_A_COMMAND
        if is_told and (own != "--precision" or _is_format(translated)):
            said.setdefault(own, translated)
        else:
            left.append(name)
            unknown += (
                [name] if options and name not in options and name.replace("-", "_") not in options else []
            )
    if start.engine == "llama.cpp":
        _divide_among_slots(said, known)
    said.setdefault("--engine", start.engine)
    given = {word.partition("=")[0] for word in typed}
    for name, value in said.items():
        if name in known and name not in given and own_option(name, known) not in given:
            typed += [name, value] if value else [name]
    return typed, tuple(_notes(start.engine, left, unknown, release.release if release else "", options))


def _find_start(arguments: Sequence[str]) -> _Start | None:
    """Return where the start command of an engine begins, be it words of their own or one quoted word."""
    for place, argument in enumerate(arguments):
        words = [argument]
        if " " in argument.strip():
            try:
                words = shlex.split(argument.replace("\\\n", " "))
            except ValueError:
                continue
            while words and _VARIABLE.fullmatch(words[0]):
                words.pop(0)
        else:
            words += arguments[place + 1 : place + _MOST_WORDS + 1]
        for engine, pattern in _STARTS:
            for count in range(min(len(words), _MOST_WORDS), 0, -1):
                if re.fullmatch(pattern, " ".join(words[:count])):
                    rest = words[count:] if " " in argument.strip() else list(arguments[place + count :])
                    return _Start(
                        place, engine, tuple(word for word in rest if word.strip() and word != "\\")
                    )
    return None


def _options_of(start: _Start, options: Mapping[str, bool]) -> Iterator[tuple[str, str | None]]:
    """Yield the options of a pasted command with their values; a lone word in front of them has no name.

    An option that the release does not have takes the word behind it as its value.
    """
    words = list(start.words)
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
        name = _LLAMA_CPP.get(name, name) if start.engine == "llama.cpp" else name
        takes = options.get(name, options.get(name.replace("-", "_").replace("__", "--", 1)))
        if not equals and takes is not False and words and not words[0].startswith("-"):
            value = words.pop(0)
        yield name, value or None


def _divide_among_slots(said: dict[str, str], known: Collection[str]) -> None:
    """Give each of llama.cpp's slots its part of the context; all are held at once, as the cache is allocated."""
    context = next((name for name in _CONTEXT if name in said), "")
    slots = int(said["--max-num-seqs"]) if said.get("--max-num-seqs", "").isdigit() else 1
    if context and slots > 1:
        said[context] = str(int(parse_count(said[context], "--ctx-size")) // slots)
    if slots > 1 and "--concurrency" in known:
        said["--concurrency"] = str(slots)


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

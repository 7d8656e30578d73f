"""Programs that start a language model: the words, images, calls and variables by which users tell them what to run."""

import functools
import re
from collections.abc import Mapping
from typing import Final, Literal

from advisor.catalog.files import named_records
from advisor.catalog.launch_options import launch_options
from advisor.catalog.schema.record import Record

_PYTHON: Final = r"(?:\S*/)?python[\d.]*(?:\.exe)?(?: -[uOBEs])?"
_FILE: Final = "support/programs.toml"
_ANY: Final = "*"
WORDS: Final = "*"
"""What a place of a chart is called that holds words of the command."""
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class EngineProgram(Record):
    """One program that runs an engine, with words of its own."""

    id: str
    engine: str
    """Engine that plans it; one that the catalog does not have is refused by name."""
    engines: Mapping[str, str] = {}
    """Engines by the values of its option `--loader`."""
    command: str
    """Words that start it."""
    starts: tuple[str, ...] = ()
    """Regular expressions of words that start it."""
    images: tuple[str, ...] = ()
    """Regular expressions of images of containers that start it themselves; a group `model` is the model in them."""
    calls: tuple[str, ...] = ()
    """Classes and functions of Python, package.Name, whose arguments are its options."""
    variables: str = ""
    """Beginning of the names of the variables that it reads as options; `*`: they have the names of options; empty: it
    reads none."""
    options_of: str = ""
    """Engine whose releases declare its options; empty if no list of them fits."""
    config: tuple[str, ...] = ()
    """Options that name a file of options."""
    always: Mapping[str, str] = {}
    """Options that it sets itself."""
    words: Mapping[str, str] = {}
    """Words for options, by the program's own."""
    values: Mapping[str, Mapping[str, str]] = {}
    """Formats by the words or numbers that stand for them, by option."""
    abbreviates: bool = False
    """Whether it takes the beginnings of its long options, as Python's argparse does."""
    settings: tuple[str, ...] = ()
    """Words of which a file of this program's settings has at least one."""
    places: Mapping[str, str] = {}
    """Options by the places of their values in charts and resources, keys joined by dots; `*`: a list of words;
    `=value`: what stands there if the resource is of this program, named last."""
    slots: Literal["", "whole"] = ""
    """Whether each of its slots has the whole context, as Ollama's have."""
    tower_option: str = ""
    """Option that names the towers of images, which a model from a file has none of without; empty if they are loaded
    with the model."""
    has_library: bool = False
    """Whether a name of a model without a tag means the default of a library's name, as Ollama's do."""
    usual_format: str = ""
    """Format that is taken where the name of a model states none; empty for that of the model's own checkpoint."""
    source: str

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """Regular expression of the words that start it."""
        starts = (
            re.escape(self.command),
            *(
                one.replace("PYTHON -m", f"(?:{_PYTHON} )?-m").replace("PYTHON", _PYTHON)
                for one in self.starts
            ),
        )
        paths = (one.replace(r"(?:\S*/)?", r"(?:\S*[/\\])?") for one in starts)  # Windows has the other slash
        return re.compile("|".join((*(rf"(?:{one})(?:\.exe)?" for one in paths), *self.images)))

    @functools.cached_property
    def takes_value(self) -> Mapping[str, bool]:
        """Whether an option of the engine's release takes a value; empty where no list of them fits."""
        release = launch_options().get(self.options_of)
        return release.takes_value if release else {}

    @property
    def options_release(self) -> str:
        """Release whose options `takes_value` has; empty where no list of them fits."""
        release = launch_options().get(self.options_of)
        return release.release if release else ""

    def whole_option(self, name: str) -> str:
        """Return the option that a name without hyphens in front begins, if the program takes such and only one does;
        else the name."""
        if not self.abbreviates or self.knows(name):
            return name
        begun = [option for option in self._options if option.startswith(name)]
        return begun[0] if len(begun) == 1 else name

    def option_of_variable(self, name: str) -> str:
        """Return the option for which a variable stands; empty if it stands for none."""
        if not self.variables:
            return ""
        beginning = "" if self.variables == _ANY else self.variables
        option = kebab(name.removeprefix(beginning))
        return option if name.startswith(beginning) and (beginning or self.knows(option)) else ""

    def knows(self, option: str) -> bool:
        """Whether a word without hyphens in front is one of its options."""
        return option == "model" or option in self.words or option in self.settings or option in self._options

    @functools.cached_property
    def _options(self) -> frozenset[str]:
        of_engine = launch_options().get(self.engine)
        return frozenset(kebab(name) for name in of_engine.takes_value) if of_engine else frozenset()


def kebab(name: str) -> str:
    """Return a name of an option as its engine's long options have it: max_model_len, maxModelLen and MAX_MODEL_LEN are
    max-model-len."""
    stripped = name.lstrip("-")
    parts = stripped if stripped.isupper() else _CAMEL.sub("-", stripped)
    return parts.lower().replace("_", "-").replace(".", "-")


@functools.lru_cache(maxsize=4096)
def name_at(path: tuple[str, ...]) -> str:
    """Return the option at nested names of a file of settings: all names joined if a program has a word for that, as
    `dtype` of a cache is another option than that of a model; else the last name."""
    whole = "-".join(path[-2:])
    return whole if any(whole in program.words for program in all_programs().values()) else path[-1]


@functools.cache
def all_programs() -> Mapping[str, EngineProgram]:
    """Return every program by name.

    Source: data/support/programs.toml, each with its own sources.
    """
    return named_records(EngineProgram, _FILE)

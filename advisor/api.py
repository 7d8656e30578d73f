"""The Python interface: each command as a function of its options, and its answer as a frozen record.

`import advisor` gives these functions on first use. Their signatures and docstrings are made from the records that
declare the options of the command line, so both take the same names and refuse the same mistakes.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from advisor.ask.options import SharedOptions
from advisor.catalog.errors import AdvisorError, MissingHardwareError, install_command
from advisor.catalog.legible import legible
from advisor.catalog.resolve import near_misses
from advisor.cli.command import commands, folders_for
from advisor.cli.errors import as_mistake
from advisor.cli.keywords import SHARED as SHARED
from advisor.cli.keywords import Keyword as Keyword
from advisor.cli.keywords import UnknownOptionError as UnknownOptionError
from advisor.cli.keywords import answer_call, command_of, keywords_of, python_name
from advisor.cli.keywords import value_of as value_of
from advisor.render.answer import Answer, Chart

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from advisor.decide.option import Option
    from advisor.emit.formats import Format

FUNCTIONS: Final = (
    "recommend",
    "replay",
    "cost",
    "build",
    "roofline",
    "memory",
    "calibrate",
    "compare",
    "kernel",
)
GROUPS: Final = ("simulate", "validate", "probe")


class Fields(Mapping[str, Any]):
    """A record of a result without a class of its own: its fields are attributes and items, and none can be set."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, object]) -> None:
        object.__setattr__(self, "_values", dict(values))

    def __getitem__(self, name: str) -> Any:
        return _freeze(self._values[name])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            raise AttributeError(f"no field {name!r}; there are {', '.join(self)}")
        return self[name]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a result cannot be changed")

    def __reduce__(self) -> tuple[Any, ...]:
        return Fields, (self._values,)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __dir__(self) -> list[str]:
        return list(self)

    def _repr_html_(self) -> str:
        """Return the record for a notebook: its fields and their values as a table."""
        rows = "".join(
            f"<tr><th>{escape(legible(name))}</th><td>{escape(legible(_words(self[name])))}</td></tr>"
            for name in self
        )
        return f'<table class="advisor">{rows}</table>'

    def __repr__(self) -> str:
        return f"Fields({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"


def _words(value: object) -> str:
    """Return a value of a record as a notebook shows it: a quantity with its interval, a record by its fields."""
    from advisor.render.document import flatten, to_json
    from advisor.render.numbers import digits
    from advisor.simulator.quantity import Quantity

    if isinstance(value, Quantity):
        return f"{digits(value.value)} ({digits(value.low)} to {digits(value.high)}, {value.basis})"
    if isinstance(value, float):
        return digits(value)
    plain = to_json(value)
    if isinstance(plain, list) and any(isinstance(each, dict) for each in plain):
        return f"{len(plain)} record{'s' if len(plain) > 1 else ''}"
    if isinstance(plain, dict):
        shown = ((name, each) for name, each in flatten(plain).items() if each not in (None, ""))
        return "; ".join(f"{name} {each}" for name, each in shown)
    return ", ".join(map(str, plain)) if isinstance(plain, list) else str(value)


class RecordList(tuple[Any, ...]):
    """A list of a result: a tuple, which a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return the records as a table of a notebook, a row each."""
        from advisor.render.frame import frame_of

        if not self or isinstance(self[0], str | int | float):
            return f"<code>{escape(legible(repr(tuple(self))))}</code>"
        return str(frame_of(map(_plain, self)).to_html(escape=True, index=False))


def _plain(record: object) -> object:
    """Return a record with the fields that it was made of."""
    return record._values if isinstance(record, Fields) else record


def _freeze(value: object) -> object:
    """Return a value of a result as it cannot be changed: what a document names is an attribute at every depth."""
    if isinstance(value, Mapping):
        return (
            value if isinstance(value, Fields) else Fields({str(name): item for name, item in value.items()})
        )
    if isinstance(value, list) or type(value) is tuple:
        return RecordList(map(_freeze, value))
    return _freeze_fields(value) if is_dataclass(value) and not isinstance(value, type) else value


def _freeze_fields(record: Any) -> Any:
    """Return a record of the same class whose tables and lists are those of a result; itself if it has none."""
    changed = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if (frozen := _freeze(value)) is not value:
            changed[field.name] = frozen
    if not changed:
        return record
    frozen_record = copy(record)
    for name, value in changed.items():
        object.__setattr__(frozen_record, name, value)
    return frozen_record


def _charts(answer: Answer) -> dict[str, Chart]:
    """Return the charts of an answer by title, those of its page included."""
    parts = (answer.blocks, *(section.blocks for section in answer.sections))
    found = [block for blocks in parts for block in blocks if isinstance(block, Chart)]
    return {chart.title: chart for chart in found if not chart.is_empty}


def _option(answer: Answer, rank: int) -> "Option":
    """Return the option of an answer that serves requests, by its rank.

    Raises: AdvisorError: the answer has none of this rank, or its options are not started by an engine.
    """
    from advisor.decide.option import ItemPerformance, Option

    options = answer.result.get("options")
    found = (
        [each for each in options if isinstance(each, Option)] if isinstance(options, list | tuple) else []
    )
    requests = [each for each in found if not isinstance(each.performance, ItemPerformance)]
    served = {each.rank: each for each in requests if each.launch is not None or each.purchases}
    if rank not in served:
        raise AdvisorError(
            f"the answer has no option {rank} that an engine starts",
            why=f"its options are {', '.join(map(str, served))}" if served else "it recommends no server",
            fix=f"rank={next(iter(served))}" if served else "ask advisor.recommend(...) about a served model",
        )
    return served[rank]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Result:
    """Answer of a command: fields of its document as attributes, as records in SI units."""

    command: str
    """The command, as typed after `advisor`."""
    answer: Answer
    """Answer with the blocks that people read."""
    shared: SharedOptions

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self.answer.result:
            raise AttributeError(
                f"the result of {self.command} has no {name!r}; it has {', '.join(self.answer.result)}"
            )
        return _freeze(self.answer.result[name])

    def __dir__(self) -> Iterable[str]:
        return sorted({*object.__dir__(self), *self.answer.result})

    @property
    def inputs(self) -> Mapping[str, object]:
        """Everything that the answer rests on, resolved, defaults included."""
        return Fields(self.answer.inputs)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons why the answer may be wrong."""
        return self.answer.warnings

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions that the program made for the user."""
        return self.answer.notes

    def to_dict(self) -> dict[str, Any]:
        """Return the document that the command prints with --json."""
        from advisor.render.document import document

        found: dict[str, Any] = document(self.answer, seed=self.shared.seed, shared=self.shared.as_inputs())
        return found

    def to_frame(self) -> "pandas.DataFrame":
        """Return the answer's list as a table: a row a record, SI units in the names of columns.

        An answer without a list is one row.
        """
        from advisor.render.frame import frame_of

        answer = self.answer
        return frame_of(answer.rows() if answer.records else [dict(answer.result)])

    @property
    def charts(self) -> tuple[str, ...]:
        """Titles of the charts that `plot` draws."""
        return tuple(_charts(self.answer))

    def plot(self, title: str | None = None) -> "Figure":
        """Return a chart of the answer as a figure of matplotlib: the one with this title, or else the first.

        Raises: AdvisorError: the answer has no such chart, or matplotlib is not installed.
        """
        known = _charts(self.answer)
        name = next(iter(known), None) if title is None else title
        if name is None or name not in known:
            near = near_misses(name or "", list(known), {})
            raise AdvisorError(
                f"the answer of {self.command} has no chart {name!r}"
                if name
                else f"{self.command} draws nothing",
                why=f"it has {', '.join(map(repr, known))}" if known else "its answer is a table or a text",
                fix=f"plot({(near or list(known))[0]!r})" if known else "to_frame() holds its figures",
            )
        try:
            from advisor.render.matplotlib_chart import draw_chart
        except ImportError:
            raise MissingHardwareError(
                "matplotlib, which draws charts, is not installed",
                fix=install_command("notebook", "matplotlib"),
            ) from None
        return draw_chart(known[name])

    def emit(self, form: "Format", folder: str | Path | None = None, *, rank: int = 1) -> dict[str, str]:
        """Return the files that start an option, by name, and write them into `folder` if one is named.

        `form` is a value of `--emit`, such as compose or k8s; `rank` is the rank of the option.

        Raises: AdvisorError: the answer has no such option, or the option cannot be written in this form.
        """
        from advisor.emit.formats import Format, emit_files
        from advisor.emit.several import emitted_models
        from advisor.render.atomic import write_files

        if form not in get_args(Format):
            near = near_misses(form, get_args(Format), {})
            raise AdvisorError(
                f"no files are written in the form {form!r}",
                fix=f"one of {', '.join(near or get_args(Format))}",
            )
        option = _option(self.answer, rank)
        if option.purchases:
            files = emitted_models(option, form)
        else:
            files = emit_files(str(self.answer.result.get("model")), option, form)
        if folder is not None:
            write_files(Path(folder), files)
        return files

    def save(self, path: str | Path) -> None:
        """Write the answer to a file, whose suffix says how: .json .csv .md .html.

        Raises: AdvisorError: no such form, or the file cannot be written.
        """
        from advisor.render.atomic import write_text
        from advisor.render.files import writer_for

        write_text(Path(path), writer_for(Path(path))(self.answer, self.to_dict()))

    def __str__(self) -> str:
        """Return what a terminal shows."""
        import io

        from advisor.render.terminal import print_blocks

        stream = io.StringIO()
        print_blocks(self.answer.blocks, stream)
        return stream.getvalue()

    def __repr__(self) -> str:
        headline = self.answer.result.get("headline", "")
        return f"<advisor {self.command}: {headline}>" if headline else f"<advisor {self.command}>"

    def _repr_html_(self) -> str:
        """Return the answer for a notebook: no script, no style of a page."""
        from itertools import count

        from advisor.render.answer import Chart
        from advisor.render.chart_text import chart_figure
        from advisor.render.html_blocks import blocks_html

        shown = [chart_figure(block) if isinstance(block, Chart) else block for block in self.answer.blocks]
        number = count(1)
        return f'<div class="advisor">{blocks_html(shown, lambda: f"advisor-{next(number)}")}</div>'


def call(name: str, arguments: Iterable[object], options: Mapping[str, object]) -> Result:
    """Return the result of a command, asked with values as a person types them or as numbers in SI units.

    Raises: AdvisorError and its kinds: as the command, or a keyword is unknown, missing or of another type.
    """
    try:
        answer, shared = answer_call(name, arguments, options)
    except Exception as error:
        mistake = error if isinstance(error, AdvisorError) else as_mistake(error)
        if mistake is None:
            raise
        for label, text in (("why", mistake.why), ("To fix", mistake.fix), ("Hint", mistake.hint)):
            if text:
                mistake.add_note(f"  {label}: {text}")
        if mistake is error:
            raise
        raise mistake from error
    return Result(name, answer, shared)


def function_of(name: str) -> Callable[..., Result]:
    """Return the function of a command, with the signature and the documentation that its options give."""

    def ask(*arguments: object, **options: object) -> Result:
        return call(name, arguments, options)

    ask.__name__ = ask.__qualname__ = python_name(name).rpartition(".")[2]
    ask.__doc__ = documentation(name)
    vars(ask)["__signature__"] = signature_of(name)
    return ask


def signature_of(name: str) -> inspect.Signature:
    """Return the parameters of a command's function with their defaults; None where the program chooses."""
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return inspect.Signature(
        [
            inspect.Parameter(word, kinds[each.is_positional], default=each.parameter.default)
            for word, each in keywords_of(name).items()
        ],
        return_annotation=Result,
    )


def documentation(name: str) -> str:
    """Return the docstring of a command's function."""
    lines = [inspect.cleandoc(command_of(name).inputs.__doc__ or ""), "", "Args:"]
    for word, each in keywords_of(name).items():
        unit = f" [{each.unit}]" if each.unit else ""
        lines.append(f"    {word}{unit}: {each.help}")
    return "\n".join(lines)


class Group:
    """Commands with a first word in common, as attributes."""

    def __init__(self, word: str) -> None:
        self._word = word
        self.__doc__ = f"Functions of `advisor {word} ...`."

    def __getattr__(self, name: str) -> Callable[..., Result]:
        if name.startswith("_") or name not in dir(self):
            raise AttributeError(f"advisor.{self._word} has no {name!r}; it has {', '.join(dir(self))}")
        function = function_of(f"{self._word} {name.replace('_', '-')}")
        setattr(self, name, function)
        return function

    def __dir__(self) -> list[str]:
        entries = commands(folders_for([self._word])).items()
        words = (name.partition(" ") for name, entry in entries if not entry.is_local)
        return [rest.replace("-", "_") for word, _, rest in words if word == self._word and rest]

    def __repr__(self) -> str:
        return f"<advisor.{self._word}: {', '.join(dir(self))}>"


def __getattr__(name: str) -> Any:
    if name in GROUPS:
        found: Any = Group(name)
    elif name in FUNCTIONS:
        found = function_of(name)
        if name == "build":
            found.check = function_of("build check")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found

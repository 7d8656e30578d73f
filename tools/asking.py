"""Questions to the program in this process: the one driver of the laws in `tests/advisor/laws` and of benchmarks.

    from asking import ask
    ask("recommend --model 8b --rate 1").options[0]["bill"]["usd_per_hour"]

Answers are read as documents of schema 2. An answer to the same words is kept as long as the process lives.
"""

import io
import json
import math
import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

TODAY = "2026-11-20"
"""Day on which questions are asked that name none: prices and their age depend on it."""
PRICED_ON_A_DAY = ("recommend", "cost", "build", "watch")
OF_THE_ROLE = ("rank", "role", "tie_with", "variants", "reasons")
"""Fields of an option that compare it with the others of its answer; the other fields are about itself."""


@dataclass(frozen=True)
class Reply:
    """Exit code, document and messages of the program for one question."""

    words: str
    code: int
    out: str
    err: str

    @cached_property
    def document(self) -> dict[str, Any]:
        """The JSON document; a program that failed has none."""
        assert self.code == 0, f"advisor {self.words}: exit {self.code}\n{self.err}"
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def options(self) -> list[dict[str, Any]]:
        """Options, best first, or the rows of a report; none where nothing satisfies the question."""
        if self.code:
            return []
        return self.document["options" if "options" in self.document else "rows"]

    @property
    def takes(self) -> list[dict[str, Any]]:
        """Options, their variants, and the safe pick, which may be below the cut of `--top`."""
        found = [each for option in self.options for each in (option, *option.get("variants", ()))]
        safe = self.safe_pick
        return found + ([safe] if safe is not None else [])

    @property
    def safe_pick(self) -> dict[str, Any] | None:
        return self.document.get("safe_pick") if self.code == 0 else None

    @property
    def first(self) -> dict[str, Any]:
        found = self.options
        assert found, f"advisor {self.words}: no options, exit {self.code}\n{self.err}"
        return found[0]

    @property
    def rejected(self) -> dict[str, dict[str, str]]:
        """Code and text against an accelerator."""
        return {each["accelerator"]: each for each in self.document["rejected"]}

    @property
    def result(self) -> dict[str, Any]:
        """The document without what was asked, how long it took, and versions."""
        found = timeless(self.document)
        del found["inputs"]
        return found

    def least_expected_usd(self, accelerator: str | None = None) -> float:
        """Lowest expected cost among options and variants [USD per hour, or for the job]; infinite without any."""
        return min(
            (
                expected_usd(take)
                for take in self.takes
                if accelerator is None or take["machine"]["accelerator"] == accelerator
            ),
            default=math.inf,
        )

    def least_bill_usd(self) -> float:
        """Lowest bill among options and variants [USD per hour]."""
        return min((take["bill"]["usd_per_hour"] for take in self.takes), default=math.inf)

    def safe_bill_usd(self) -> float:
        """Bill of the safe pick, of a job its dollars; infinite where there is none."""
        if self.safe_pick is None:
            return math.inf
        bill = self.safe_pick["bill"]
        return float(bill["usd_per_hour"] if bill["usd"] is None else bill["usd"]["value"])

    def safe_expected_usd(self) -> float:
        """Expected cost of the safe pick; infinite where there is none."""
        return math.inf if self.safe_pick is None else expected_usd(self.safe_pick)


def expected_usd(option: dict[str, Any]) -> float:
    """Cost by which the option is ranked: of a load the bill times expected over predicted cost per token [USD/h], of a
    job its dollars, of items the bill [USD/h]."""
    bill = option["bill"]
    performance = option["performance"]
    if "expected_usd_per_million_tokens" not in performance:
        return float(bill["usd_per_hour"] if bill["usd"] is None else bill["usd"]["value"])
    factor = performance["expected_usd_per_million_tokens"] / performance["usd_per_million_tokens"]["value"]
    return float(bill["usd_per_hour"] * factor)


def itself(option: dict[str, Any]) -> dict[str, Any]:
    """An option without what it says about the others."""
    return {name: value for name, value in option.items() if name not in OF_THE_ROLE}


def timeless(value: Any) -> Any:
    """A document without seconds of the clock and without versions."""
    if isinstance(value, dict):
        return {
            name: timeless(each)
            for name, each in value.items()
            if not name.endswith(("wall_s", "tool_version", "catalog_version", "schema_version"))
        }
    return [timeless(each) for each in value] if isinstance(value, list) else value


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a document with its path, `options[0].bill.usd_per_hour`."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from leaves(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from leaves(each, f"{path}[{number}]")
    else:
        yield path, value


@cache
def ask(words: str, *, as_json: bool = True) -> Reply:
    """Ask `advisor WORDS --json --offline` on a fixed day, unless the words name another."""
    arguments = shlex.split(words)
    if as_json and "--json" not in arguments:
        arguments.append("--json")
    if "--offline" not in arguments:
        arguments.append("--offline")
    if arguments[0] in PRICED_ON_A_DAY and "--as-of" not in arguments:
        arguments += ["--as-of", TODAY]
    from advisor.__main__ import main

    out = io.StringIO()
    err = io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return Reply(words, code, out.getvalue(), err.getvalue())


def with_option(words: str, option: str) -> str:
    """The words with another value of an option, or with one option more."""
    arguments = shlex.split(words)
    more = shlex.split(option)
    if more and more[0] in arguments:
        place = arguments.index(more[0])
        del arguments[place : place + len(more)]
    return shlex.join((*arguments, *more))


def without_option(words: str, name: str) -> str:
    """The words without an option and its value."""
    arguments = shlex.split(words)
    place = arguments.index(name)
    del arguments[place : place + 2]
    return shlex.join(arguments)

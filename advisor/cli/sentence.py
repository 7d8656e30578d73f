"""A question typed as a sentence, "a chatbot for 1,000 users", as options; words that change nothing are named."""

import datetime
import functools
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from advisor.ask.measures import parse_budget, parse_count, parse_seconds
from advisor.catalog import accelerators, models
from advisor.catalog.errors import AdvisorError
from advisor.catalog.files import DATA_DIR, read_toml

_AMOUNT: Final = r"(?P<amount>\d[\d.,'’\u202f]*(?:\s\d{3}\b)*\s*(?:k|m|mio|million|thousand)?)"
_TIME: Final = (
    r"(?P<time>\d+(?:\.\d+)?\s*(?:ms|milliseconds?|s|sec|seconds?|min|minutes?|h|hours?|days?|d|weeks?)\b)"
)
_BUDGET: Final = re.compile(
    r"(?:budget (?:of )?|for )?"
    r"(?P<budget>(?:\$\s*\d[\d.,]*k?|\d[\d.,]*k?\s*(?:\$|usd|dollars))\s*(?:/|per |an? )\s*\w+)"
)
_PERIOD: Final = (
    r"(?:\s+(?:per|a|an|each|pro|par|al)\s+|\s*/\s*)(?P<period>second|minute|hour|day|tag|jour|día|giorno)"
)
_PERIODS: Final = {"tag": "day", "jour": "day", "día": "day", "giorno": "day"}
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SIZE: Final = re.compile(r"\b\d+(?:\.\d+)?b\b")
_NAME_WORDS: Final = 4


@functools.cache
def _words() -> Mapping[str, Mapping[str, Any]]:
    return read_toml(DATA_DIR / "question_words.toml")


def options_of_sentence(text: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the options for which a sentence stands, and notes on how it was understood.

    Raises: AdvisorError: nothing in it says what is asked.
    """
    reader = _Reader(text.lower())
    options = reader.read()
    if not options:
        raise AdvisorError(
            f"'{text}' is not understood",
            why="it names no use case, number of people, amount of work, model or budget",
            fix="advisor recommend --use-case chatbot --users 1000",
        )
    notes = [f"understood as: {shlex.join(options)}"]
    if left := reader.left():
        notes.append(f"not part of the question: {left}")
    return options, tuple(notes)


class _Reader:
    """Text of a question, of which what was understood is taken away."""

    def __init__(self, text: str) -> None:
        self.text = text

    def read(self) -> list[str]:
        """Return the options of the question."""
        found: dict[str, str] = {}
        if budget := self._take(_BUDGET):
            found["--budget"] = _check(budget["budget"].strip(), parse_budget)
        users, case = self._people()
        work = {} if users else self._work()
        if time := self._take(rf"(?:{_any('before', 'first_token')})\s+{_TIME}") if not work else None:
            found["--ttft-p99"] = _check(time["time"], lambda text: parse_seconds(text, "--ttft-p99"))
        for name, words in _words()["use_cases"].items():
            if self._take(rf"\b(?:{_join(words)})\b"):
                case = name if case in ("", "chatbot") else case
        if self._take(rf"(?:{_any('training', 'finetune')})"):
            found["--workload"] = "finetune"
        found |= self._hardware()
        if model := self._model():
            found["--model"] = model
        if case and "--workload" not in work | found:
            found["--use-case"] = case
        if users:
            found["--users"] = users
        return [word for pair in (found | work).items() for word in pair]

    def _people(self) -> tuple[str, str]:
        """Return the number of people, and the use case that their name tells."""
        for case, words in _words()["people"].items():
            if found := self._take(rf"{_AMOUNT}\s+(?:[\w-]+\s+)?(?:{_join(words)})\b"):
                return found["amount"].strip(), "" if case == "any" else case
        return "", ""

    def _work(self) -> dict[str, str]:
        """Return a rate, or an amount of work with its deadline."""
        items = rf"{_AMOUNT}\s+(?:[\w-]+\s+)?(?:{_any('items', 'any')})\b"
        if found := self._take(items + _PERIOD):
            period = _PERIODS.get(found["period"], found["period"])
            return {"--rate": f"{parse_count(found['amount'], '--rate'):.0f}/{period}"}
        found = self._take(items)
        if found is None:
            return {}
        work = {"--workload": "batch", "--items": found["amount"].strip()}
        if day := self._take(rf"(?:{_any('before', 'deadline')})\s+(?P<day>{'|'.join(_WEEKDAYS)})\b"):
            ahead = _WEEKDAYS.index(day["day"]) - datetime.date.today().weekday()
            work["--deadline"] = f"{(ahead - 1) % 7 + 1}d"
        if time := self._take(rf"(?:{_any('before', 'deadline')})\s+{_TIME}"):
            work["--deadline"] = time["time"]
        return work

    def _hardware(self) -> dict[str, str]:
        """Return the accelerators that are named behind a word such as on; owned if their number or owner is told."""
        for found in re.finditer(
            rf"\b(?:{_any('before', 'hardware')})\s+(?:(my|our|an?)\s+)?(?:(\d+)\s*x?\s+)?", self.text
        ):
            rest = self.text[found.end() :].split()
            for count in range(min(_NAME_WORDS, len(rest)), 0, -1):
                name = " ".join(rest[:count]).strip(".,?!")
                try:
                    known = accelerators.get(name).record.id
                except AdvisorError:
                    continue
                self.text = self.text.replace(found[0] + " ".join(rest[:count]), " ", 1)
                is_own = found[2] or found[1] in ("my", "our")
                return {"--own": f"{found[2] or 1}x{known}"} if is_own else {"--gpu": known}
        return {}

    def _model(self) -> str:
        """Return the model that the words name, or the size of one."""
        words = self.text.split()
        for count in range(_NAME_WORDS, 0, -1):
            for place in range(len(words) - count + 1):
                name = " ".join(words[place : place + count]).strip(".,?!")
                if any(sign.isdigit() for sign in name) and models.find(name) is not None:
                    self.text = self.text.replace(" ".join(words[place : place + count]), " ", 1)
                    return name.replace(" ", "-")
        size = self._take(_SIZE)
        return size[0] if size else ""

    def _take(self, pattern: str | re.Pattern[str]) -> re.Match[str] | None:
        """Return the first place of a pattern, which is taken out of the text."""
        found = re.search(pattern, self.text)
        if found is not None:
            self.text = f"{self.text[: found.start()]} {self.text[found.end() :]}"
        return found

    def left(self) -> str:
        """Return the words that were not understood, without those that only join others."""
        words = [word.strip(".,?!") for word in self.text.split()]
        return " ".join(word for word in words if word and word not in _words()["joining"]["any"])


def _check(text: str, parse: Any) -> str:
    parse(text)
    return text


def _any(table: str, name: str) -> str:
    return _join(_words()[table][name])


def _join(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in _by_length(words))


def _by_length(words: Iterable[str]) -> Iterator[str]:
    """Yield longer words first, so that the whole of a word counts."""
    yield from sorted(words, key=len, reverse=True)

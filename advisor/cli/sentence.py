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
_MONEY: Final = r"\d[\d.,]*\s*k?"
_CURRENCY: Final = (
    r"(?:us\s?\$|[$€£¥]|\b(?:usd|us\s?dollars?|dollars?|bucks|eur|euros?|gbp|pounds?|chf|cad|aud|inr)\b)"
)
_BUDGET: Final = re.compile(
    rf"(?:\b(?:budget(?: is| of|:)?|for|under|below|less than|up to|max) )?"
    rf"(?P<budget>(?:{_CURRENCY}\s*{_MONEY}|{_MONEY}\s*{_CURRENCY}|(?<=budget ){_MONEY}|(?<=budget of ){_MONEY})"
    rf"(?:\s*(?:/|\bper\b|\ban?\b)\s*\w+)?)"
)
"""Money in any currency; what is no sum of dollars per time is refused."""
_EACH: Final = r"(?:\s+(?:per|a|an|each|every|pro|par|por|al)\s+|\s*/\s*)"
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_BOARDS: Final = re.compile(
    r"(?:(?P<front>\d{1,3})\s*[x×]\s*)?(?P<name>\S.*?)(?:\s+[x×]\s*(?P<behind>\d{1,3}))?(?: (?:gpu|card|board)s?)?"
)
"""Accelerators as people count them: 2x rtx 4090, rtx 4090 x2."""
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
        self.text = " ".join(text.split())

    def read(self) -> list[str]:
        """Return the options of the question."""
        found: dict[str, str] = {}
        for word, number in _words()["numbers"].items():
            self.text = re.sub(rf"\b{word}\b", str(number), self.text)
        if budget := self._take(_BUDGET):
            found["--budget"] = _check(budget["budget"].strip(), parse_budget)
        for name, words in _words()["counts"].items():
            if count := self._take(rf"{_AMOUNT}\s+(?:{_join(words)})\b"):
                found[f"--{name}"] = count["amount"].strip()
        users, case = self._people(is_counted="--concurrency" in found)
        work = {} if users else self._work()
        if time := self._take(rf"(?:{_any('before', 'first_token')})\s+{_TIME}") if not work else None:
            found["--ttft-p99"] = _check(time["time"], lambda text: parse_seconds(text, "--ttft-p99"))
        for name, words in _words()["use_cases"].items():
            if self._take(rf"\b(?:{_join(words)})\b"):
                case = name if case in ("", "chatbot") else case
        for name, words in _words()["methods"].items():
            if self._take(rf"\b(?:{_join(words)})\b"):
                found |= {"--workload": "finetune", "--method": name}
        if self._take(rf"(?:{_any('training', 'finetune')})"):
            found["--workload"] = "finetune"
        model = self._model()
        for name, words in _words()["formats"].items():
            if self._take(rf"\b(?:{_join(words)})\b"):
                found["--precision"] = name
        for option, named in self._every_hardware():
            found[option] = ",".join(filter(None, (found.get(option), named)))
        if model or (model := self._size()):
            found["--model"] = model
        if case and "--workload" not in work | found:
            found["--use-case"] = case
        if users:
            found["--users"] = users
        return [word for pair in (found | work).items() for word in pair]

    def _people(self, *, is_counted: bool) -> tuple[str, str]:
        """Return the number of people, and the use case that their name tells; no number if it `is_counted` already."""
        for case, words in _words()["people"].items():
            amount = r"(?P<amount>)" if is_counted else rf"{_AMOUNT}\s+(?:[\w-]+\s+)?"
            if found := self._take(rf"{amount}\b(?:{_join(words)})\b"):
                return found["amount"].strip(), "" if case == "any" else case
        return "", ""

    def _work(self) -> dict[str, str]:
        """Return a rate, or an amount of work with its deadline."""
        items = rf"{_AMOUNT}\s*\b(?:[\w-]+\s+)?(?:{_any('items', 'any')})\b"
        for period, words in _words()["periods"].items():
            if found := self._take(rf"{items}{_EACH}(?:{_join(words)})\b"):
                return {"--rate": f"{parse_count(found['amount'], '--rate'):.0f}/{period}"}
        if found := self._take(rf"{_AMOUNT}\s*(?:{_any('items', 'per_second')})\b"):
            return {"--rate": f"{found['amount'].strip()}/second"}
        found = self._take(items)
        if found is None:
            return {}
        work = {"--workload": "batch", "--items": found["amount"].strip()}
        if day := self._take(rf"(?:{_any('before', 'deadline')})\s+(?P<day>{'|'.join(_WEEKDAYS)})\b"):
            ahead = _WEEKDAYS.index(day["day"]) - datetime.date.today().weekday()
            work["--deadline"] = f"{(ahead - 1) % 7 + 1}d"
        for time_taken, words in _words()["deadlines"].items():
            if self._take(rf"\b(?:{_join(words)})\b"):
                work["--deadline"] = time_taken
        if time := self._take(rf"(?:{_any('before', 'deadline')})\s+{_TIME}"):
            work["--deadline"] = time["time"]
        return work

    def _every_hardware(self) -> Iterator[tuple[str, str]]:
        """Yield the accelerators that are named, with the option of the first; others stay in the text."""
        first = ""
        before = self.text
        while found := self._hardware():
            ((option, named),) = found.items()
            if first not in ("", option):
                self.text = before
                return
            yield option, named
            first = option
            before = self.text

    def _hardware(self) -> dict[str, str]:
        """Return the accelerators that are named, in any number of words; owned if their number or owner is told."""
        words = self.text.split()
        for count in range(min(_NAME_WORDS, len(words)), 0, -1):
            for place in range(len(words) - count + 1):
                found = _BOARDS.fullmatch(" ".join(words[place : place + count]).strip(" .,:;?!()"))
                if found is None:
                    continue
                before = " ".join(words[:place])
                told = re.search(
                    rf"(?:\b(?:{_any('before', 'owner')}|the|an?) )*(?:(?P<number>\d{{1,5}}) ?[x×]? ?)?$",
                    f"{before} ",
                )
                assert told is not None
                rest = before[: told.start()].split()
                is_behind = rest[-1:] != [] and rest[-1] in _words()["before"]["hardware"]
                number = found["front"] or found["behind"] or told["number"]
                is_own = bool(number or re.search(rf"\b(?:{_any('before', 'owner')})\b", told[0]))
                is_name = any(sign.isdigit() for sign in found["name"]) and not found["name"].isdigit()
                if not (is_name or is_behind or is_own) or (known := _accelerator(found["name"])) is None:
                    continue
                self.text = " ".join((*(rest[:-1] if is_behind else rest), *words[place + count :]))
                return {"--own": f"{number or 1}x{known}"} if is_own else {"--gpu": known}
        return {}

    def _model(self) -> str:
        """Return the model that the words name."""
        words = self.text.split()
        for count in range(_NAME_WORDS, 0, -1):
            for place in range(len(words) - count + 1):
                name = " ".join(words[place : place + count]).strip(".,?!")
                if any(sign.isdigit() for sign in name) and models.find(name) is not None:
                    self.text = " ".join((*words[:place], *words[place + count :]))
                    return name.replace(" ", "-")
        return ""

    def _size(self) -> str:
        """Return the size of a model that the words name."""
        size = self._take(_SIZE)
        return size[0] if size else ""

    def _take(self, pattern: str | re.Pattern[str]) -> re.Match[str] | None:
        """Return the first place of a pattern, which is taken out of the text."""
        found = re.search(pattern, self.text)
        if found is not None:
            self.text = " ".join(f"{self.text[: found.start()]} {self.text[found.end() :]}".split())
        return found

    def left(self) -> str:
        """Return the words that were not understood, without those that only join others."""
        words = [word.strip(".,?!") for word in self.text.split()]
        return " ".join(word for word in words if word and word not in _words()["joining"]["any"])


def _check(text: str, parse: Any) -> str:
    parse(text)
    return text


def _accelerator(name: str) -> str | None:
    """Return the accelerator with a name, which may be in the plural; None if the catalog has none."""
    for spelling in (name, name.removesuffix("s")):
        try:
            return accelerators.get(spelling).record.id
        except AdvisorError:
            continue
    return None


def _any(table: str, name: str) -> str:
    return _join(_words()[table][name])


def _join(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in _by_length(words))


def _by_length(words: Iterable[str]) -> Iterator[str]:
    """Yield longer words first, so that the whole of a word counts."""
    yield from sorted(words, key=len, reverse=True)

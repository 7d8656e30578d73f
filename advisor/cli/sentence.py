"""A question typed as a sentence, "a chatbot for 1,000 users", as options; words that change nothing are named."""

import datetime
import functools
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from advisor.ask.measures import parse_budget, parse_count, parse_seconds, parse_usd
from advisor.catalog import accelerators, models
from advisor.catalog.errors import AdvisorError
from advisor.catalog.files import DATA_DIR, read_toml
from advisor.catalog.formats.machine_listing import nodes_in
from advisor.catalog.units import DAY_S, HOUR_S, MILLISECOND_S, MINUTE_S
from advisor.simulator.workloads.speech import SEGMENT_S

_AMOUNT: Final = (
    r"(?P<amount>\d+(?:[.,'’\u202f]\d+)*(?:\s\d{3}\b)*"
    r"(?:\s*(?:k|m|b|t|mio|mrd|bn|tsd|thousand|millions?|billions?|trillions?)\b)?)"
)
_TIME: Final = (
    r"(?P<time>\d+(?:\.\d+)?\s*(?:ms|milliseconds?|s|sec|seconds?|min|minutes?|h|hours?|days?|d|weeks?)\b)"
)
_MONEY: Final = r"\d[\d.,]*(?:\s*k\b)?"
_CURRENCY: Final = (
    r"(?:us\s?\$|[$€£¥]|\b(?:usd|us\s?dollars?|dollars?|bucks|eur|euros?|gbp|pounds?|chf|cad|aud|inr)\b)"
)
_BUDGET: Final = re.compile(
    rf"(?:\b(?:budget(?: is| of|:)?|for|under|below|less than|up to|max) )?"
    rf"(?P<budget>(?P<money>{_CURRENCY}\s*{_MONEY}|{_MONEY}\s*{_CURRENCY}|(?<=budget ){_MONEY}|(?<=budget of ){_MONEY})"
    r"(?:(?:\s*/\s*|\s+(?:per|an?|pro|par|por|al|im|je|each)\s+)(?P<period>\w+)|\s+(?P<adverb>(?:hour|dai|month|year)ly))?)"
)
"""Money in any currency; what is no sum of dollars per time is refused."""
_EACH: Final = r"(?:\s+(?:per|a|an|each|every|pro|par|por|al)\s+|\s*/\s*)"
_PROFESSION: Final = (
    r"(?!(?:servers|papers|parameters|layers|computers|orders|letters|numbers|clusters|containers|errors|vectors|tensors"
    r"|processors|accelerators|months|variants)\b)[^\W\d_]+(?:ers|ors|ists|ants|ees|ians|men|innen|eurs|euses|istes|istas|adores)"
)
"""Ending of the words for what people are: teachers, doctors, analysts, accountants."""
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_BOARDS: Final = re.compile(
    r"(?:(?P<front>\d{1,3})\s*[x×]\s*)?(?P<name>\S.*?)(?:\s+[x×]\s*(?P<behind>\d{1,3}))?(?: (?:gpu|card|board)s?)?"
)
"""Accelerators as people count them: 2x rtx 4090, rtx 4090 x2."""
_SIZE: Final = re.compile(r"(?:\bllama\s)?\b(?P<size>\d+(?:\.\d+)?b)\b")
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
        self.typed = " ".join(text.split())
        self.nodes = 1
        """Nodes of which each holds the accelerators that are counted."""

    def read(self) -> list[str]:
        """Return the options of the question."""
        found: dict[str, str] = {}
        for word, number in _words()["numbers"].items():
            self.typed = re.sub(rf"\b{word}\b", str(number), self.typed)
        self.nodes, self.typed = nodes_in(self.typed)
        learns = any(re.search(rf"\b(?:{_any('workloads', name)})\b", self.typed) for name in _LEARNING)
        if budget := self._take(_BUDGET):
            found["--budget"] = _dollars(budget, is_total=learns)
        found |= self._latencies()
        for name, words in _words()["counts"].items():
            is_of_prompts = not learns or name == "concurrency"
            if is_of_prompts and (count := self._take(rf"{_AMOUNT}\s+(?:{_join(words)})\b")):
                found[f"--{name}"] = count["amount"].strip()
        users, case = self._people(is_counted="--concurrency" in found)
        model = self._model()
        known = models.find(model) if model else None
        if not users:
            found |= self._workload()
        if known is not None and known.workload in _WORKLOADS and not users:
            found.setdefault("--workload", _WORKLOADS[known.workload])
        found |= {} if users else self._work(found.get("--workload", ""))
        if "--rate" not in found and "--items" not in found:
            found = self._first_token() | found
        for name, words in _words()["use_cases"].items():
            if self._take(rf"\b(?:{_join(words)})\b"):
                case = name if case in ("", "chatbot") else case
        for name, words in _words()["formats"].items():
            if self._take(rf"\b(?:{_join(words)})\b"):
                found["--precision"] = name
        for option, named in self._every_hardware():
            found[option] = ",".join(filter(None, (found.get(option), named)))
        if self.nodes > 1 and "--own" not in found:
            self.typed += f" {self.nodes} nodes"
        model = model or self._size()
        if found.get("--workload") == "distill" and (student := self._model() or self._size()):
            found["--teacher"] = model
            model = student
        if model:
            found["--model"] = model
        if case and "--workload" not in found:
            found["--use-case"] = case
        if users:
            found["--users"] = users
        return [word for pair in found.items() for word in pair]

    def _latencies(self) -> dict[str, str]:
        """Return the times that are named, and the time of a token for a speed that each reader has."""
        found: dict[str, str] = {}
        limit = rf"(?:[\s:=<≤,]|\b(?:p99|is|of|at most|max|in|en|{_any('before', 'first_token')})\b)"
        for name, words in _words()["latencies"].items():
            behind = rf"{limit}*\b{_TIME}\s+(?:(?:to|for|per|until|bis zum|the)\s+)*(?:{_join(words)})\b"
            if time := self._take(rf"(?:\bp99 )?\b(?:{_join(words)})\b{limit}*{_TIME}") or self._take(behind):
                found[f"--{name}"] = _check(
                    time["time"], functools.partial(parse_seconds, option=f"--{name}")
                )
        per_second = rf"(?:tps|t/s|(?:tokens?|toks?){_EACH}(?:{_join(_words()['periods']['second'])}))"
        if speed := self._take(rf"{_AMOUNT}\s*{per_second}{_EACH}(?:{_any('people', 'each')})\b"):
            each_s = 1.0 / parse_count(speed["amount"].strip(), "--tpot-p99")
            found.setdefault("--tpot-p99", f"{each_s / MILLISECOND_S:.3g}ms")
        return found

    def _first_token(self) -> dict[str, str]:
        """Return the limit of a time that is not named, which is that to the first token."""
        time = self._take(rf"(?:{_any('before', 'first_token')})\s+{_TIME}")
        if time is None:
            return {}
        return {"--ttft-p99": _check(time["time"], lambda text: parse_seconds(text, "--ttft-p99"))}

    def _workload(self) -> dict[str, str]:
        """Return the kind of work that the words name."""
        for name, words in _words()["methods"].items():
            if self._take(rf"\b(?:{_join(words)})\b"):
                for each in _words()["workloads"]["finetune"]:
                    self._take(rf"\b{re.escape(each)}\b")
                return {"--workload": "finetune", "--method": name}
        for name, words in _words()["workloads"].items():
            if self._take(rf"\b(?:{_join(words)})\b"):
                return {"--workload": name}
        return {}

    def _people(self, *, is_counted: bool) -> tuple[str, str]:
        """Return the number of people, and the use case that their name tells; no number if it `is_counted` already."""
        items = _words()["items"]["any"]
        a_time = _join(word for words in _words()["periods"].values() for word in words)
        kinds = {
            case: "|".join(
                f"{re.escape(word)}(?!{_EACH}(?:{a_time})\\b)" if word in items else re.escape(word)
                for word in _by_length(words)
            )
            for case, words in _words()["people"].items()
            if case != "each"
        }
        for case, words in (kinds | {"": _PROFESSION}).items():
            amount = r"(?P<amount>)" if is_counted else rf"{_AMOUNT}\s+(?:[^\W\d][\w-]*\s+)?"
            if (case or not is_counted) and (found := self._take(rf"{amount}\b(?:{words})\b")):
                return found["amount"].strip(), "" if case == "any" else case
        return "", ""

    def _work(self, workload: str) -> dict[str, str]:
        """Return a rate, or an amount of work with its deadline; of a model that learns its tokens and deadline."""
        if workload in _LEARNING:
            tokens = self._take(rf"{_AMOUNT}\s*(?:{_any('items', 'tokens')})\b(?!\s*(?:/|per))")
            found = {"--tokens": tokens["amount"].strip()} if tokens else {}
            return found | self._deadline()
        units = _join(word for words in _words()["audio"].values() for word in words)
        recorded = rf"(?:(?:of|de|di)\s+)?(?:{_any('items', 'audio')})\b"
        audio = rf"{_AMOUNT}\s*(?P<unit>{units})\s+{recorded}"
        if workload == "speech":
            self.typed = re.sub(audio, _segments_of, self.typed)
        items = rf"{_AMOUNT}\s*\b(?:[^\W\d][\w-]*\s+)?(?:{_any('items', 'any')})\b"
        for period, words in _words()["periods"].items():
            if found_rate := self._take(rf"{items}{_EACH}(?:{_join(words)})\b"):
                return {"--rate": f"{parse_count(found_rate['amount'], '--rate'):.0f}/{period}"}
        if found_rate := self._take(rf"{_AMOUNT}\s*(?:{_any('items', 'per_second')})\b"):
            return {"--rate": f"{found_rate['amount'].strip()}/second"}
        before = self.typed
        amount = self._take(items)
        if amount is None:
            return {}
        deadline = self._deadline()
        if workload in ("", "batch"):
            return {"--workload": "batch", "--items": amount["amount"].strip(), **deadline}
        if not deadline:  # only a rate is asked of other work
            self.typed = before
            return {}
        days = parse_seconds(deadline["--deadline"], "--deadline") / DAY_S
        return {"--rate": f"{parse_count(amount['amount'].strip(), '--items') / days:.0f}/day"}

    def _deadline(self) -> dict[str, str]:
        """Return the time that work may take."""
        found: dict[str, str] = {}
        if day := self._take(rf"(?:{_any('before', 'deadline')})\s+(?P<day>{'|'.join(_WEEKDAYS)})\b"):
            ahead = _WEEKDAYS.index(day["day"]) - datetime.date.today().weekday()
            found["--deadline"] = f"{(ahead - 1) % 7 + 1}d"
        for time_taken, words in _words()["deadlines"].items():
            if self._take(rf"\b(?:{_join(words)})\b"):
                found["--deadline"] = time_taken
        if time := self._take(rf"(?:{_any('before', 'deadline')})\s+{_TIME}"):
            found["--deadline"] = time["time"]
        return found

    def _every_hardware(self) -> Iterator[tuple[str, str]]:
        """Yield the accelerators that are named, with the option of the first; others stay in the text."""
        first = ""
        before = self.typed
        while found := self._hardware():
            ((option, named),) = found.items()
            if first not in ("", option):
                self.typed = before
                return
            yield option, named
            first = option
            before = self.typed

    def _hardware(self) -> dict[str, str]:
        """Return the accelerators that are named, in any number of words; owned if their number or owner is told."""
        words = self.typed.split()
        for count in range(min(_NAME_WORDS, len(words)), 0, -1):
            for place in range(len(words) - count + 1):
                found = _BOARDS.fullmatch(" ".join(words[place : place + count]).strip(" .,:;?!()"))
                if found is None:
                    continue
                before = " ".join(words[:place])
                number = rf"(?P<number>\d{{1,5}}|{_any('before', 'one')})"
                told = re.search(
                    rf"(?:\b(?:{_any('before', 'owner')}|the|an?) )*(?:{number} ?[x×]? ?)?$",
                    f"{before} ",
                )
                assert told is not None
                rest = before[: told.start()].split()
                is_behind = rest[-1:] != [] and rest[-1] in _words()["before"]["hardware"]
                number = found["front"] or found["behind"] or told["number"]
                number = "1" if number in _words()["before"]["one"] else number
                is_own = bool(number or re.search(rf"\b(?:{_any('before', 'owner')})\b", told[0]))
                is_alone = (
                    "," in f",{before}"[-1:]
                    and "," in f"{words[place + count - 1]},"[-1:]
                    and place + count == len(words)
                )
                is_name = any(sign.isdigit() for sign in found["name"]) and (
                    not found["name"].isdigit() or is_alone
                )
                if not (is_name or is_behind or is_own) or (known := _accelerator(found["name"])) is None:
                    continue
                self.typed = " ".join((*(rest[:-1] if is_behind else rest), *words[place + count :]))
                return {"--own": f"{self.nodes * int(number or 1)}x{known}"} if is_own else {"--gpu": known}
        return {}

    def _model(self) -> str:
        """Return the model that the words name."""
        words = self.typed.split()
        for count in range(_NAME_WORDS, 0, -1):
            for place in range(len(words) - count + 1):
                name = " ".join(words[place : place + count]).strip(" .,;:?!")
                if re.search(r"[,;:?!] ", name):
                    continue
                is_name = count > 1 or any(sign.isdigit() for sign in name) or name in models.all_ids()
                if is_name and models.find(name) is not None:
                    end = ("",) if words[place + count - 1][-1].isalnum() else (",",)
                    self.typed = " ".join((*words[:place], *end, *words[place + count :]))
                    return name.replace(" ", "-")
        return ""

    def _size(self) -> str:
        """Return the size of a model that the words name."""
        size = self._take(_SIZE)
        return size["size"] if size else ""

    def _take(self, pattern: str | re.Pattern[str]) -> re.Match[str] | None:
        """Return the first place of a pattern, which is taken out of the text."""
        found = re.search(pattern, self.typed)
        if found is not None:
            self.typed = " ".join(f"{self.typed[: found.start()]} {self.typed[found.end() :]}".split())
        return found

    def left(self) -> str:
        """Return the words that were not understood, without those that only join others."""
        words = [word.strip(".,?!¿¡") for word in self.typed.split()]
        return " ".join(word for word in words if word and word not in _words()["joining"]["any"])


_WORKLOADS: Final = {"encoder": "embed", "diffusion": "diffusion", "speech": "speech"}
"""Work by the kind of a model that makes no text."""
_LEARNING: Final = ("train", "finetune")
_AUDIO_S: Final = {"hour": HOUR_S, "minute": MINUTE_S}


def _segments_of(audio: re.Match[str]) -> str:
    """Return the number of segments that a model of speech reads, for the length of recordings."""
    each_s = next(_AUDIO_S[name] for name, words in _words()["audio"].items() if audio["unit"] in words)
    return f"{parse_count(audio['amount'].strip(), '--rate') * each_s / SEGMENT_S:.0f} requests"


def _dollars(budget: re.Match[str], *, is_total: bool) -> str:
    """Return a budget with its period in English; that of a model that learns is one in all.

    Raises: AdvisorError: it is no sum of dollars, or lacks its period.
    """
    text = budget["budget"].strip()
    typed = budget["period"] or budget["adverb"]
    if typed is None and is_total:
        parse_usd(text, example="5000")
        return text
    period = next((name for name, words in _words()["periods"].items() if typed in words), typed)
    return _check(text if period == typed else f"{budget['money'].strip()}/{period}", parse_budget)


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

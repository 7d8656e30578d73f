"""A question typed as a sentence, "a chatbot for 1,000 users", as options; words that change nothing are named."""

import datetime
import functools
import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, get_args

from advisor.ask.measures import parse_budget, parse_count, parse_seconds, parse_usd
from advisor.ask.options import ItemInput, ObjectiveOptions
from advisor.ask.training_options import PROMPTS_OF_A_STEP, AlgorithmName
from advisor.catalog import accelerators, models, profiles
from advisor.catalog.errors import AdvisorError
from advisor.catalog.files import DATA_DIR, read_toml
from advisor.catalog.formats.accelerator_names import unknown_accelerator
from advisor.catalog.formats.machine_listing import nodes_in
from advisor.catalog.schema import Model
from advisor.catalog.units import DAY_S, GIB, HOUR_S, MILLISECOND_S, MINUTE_S
from advisor.catalog.use_cases import get_use_case
from advisor.cli.sentence_sellers import makers_in, providers_in
from advisor.simulator.layout import OTHER_WORK
from advisor.simulator.workloads.speech import SEGMENT_S

_AMOUNT: Final = (
    r"(?P<amount>\d+(?:[.,'’\u202f]\d+)*(?:\s\d{3}\b)*"
    r"(?:\s*(?:k|m|b|t|mio|mrd|bn|tsd|thousand|millions?|billions?|trillions?)\b)?)"
)
_SECOND_AMOUNT: Final = _AMOUNT.replace("<amount>", "<second>")
_LONG_TIME: Final = r"(?P<time>\d+(?:\.\d+)?\s*(?:min|minutes?|h|hours?|days?|d|weeks?|months?)\b)"
"""A time that work may take; shorter ones are limits of latency."""
_FASTEST_READ: Final = 250.0
"""Highest speed without a reader's word that is one reader's [tokens/s]. Own assumption: people ask for 10 to 100, and
for thousands in all."""
_LONGEST_PROMPT: Final = 10e6
"""Length above which tokens are an amount of work, not a prompt's. The longest windows of the catalog have as many."""
_TIME: Final = (
    r"(?P<time>\d+(?:\.\d+)?\s*(?:ms|milliseconds?|s|sec|seconds?|min|minutes?|h|hours?|days?|d|weeks?)\b)"
)
_PERCENTILE: Final = (
    r"(?:p ?\d\d(?:\.\d+)?|\d\d(?:\.\d+)?(?:th|st|\.)? ?(?:percentile|perzentil|percentil)"
    r"|median|mean|average|avg)\b"
)
"""Statistic of a time that is limited; without one, the 99th percentile is."""
_MONEY: Final = r"\d[\d.,]*(?:\s*k\b)?"
_CURRENCY: Final = (
    r"(?:us\s?\$|[$€£¥]|\b(?:usd|us\s?dollars?|dollars?|bucks|eur|euros?|gbp|pounds?|chf|cad|aud|inr)\b)"
)
_EACH: Final = r"(?:\s+(?:per|a|an|each|every|pro|par|por|al)\s+|\s*/\s*)"
_MONTH: Final = r"(?:month|monat|mois|mes|mese|year|jahr|an|année|año|anno)"
"""Periods of budgets whose currency is left out: a number per second or day may count requests."""
_BUDGET: Final = re.compile(
    rf"(?P<limit>\b(?:budget(?: is| of|:)?|for|under|below|less than|up to|at most"
    r"|(?:no|not) more than|within|max(?:imum|imal|\.)?(?: of)?|h(?:ö|oe)chstens|au plus|como m[áa]ximo|al massimo) )?"
    rf"(?P<budget>(?P<money>{_CURRENCY}\s*{_MONEY}|{_MONEY}\s*{_CURRENCY}|(?<=budget ){_MONEY}|(?<=budget of ){_MONEY}"
    rf"|(?(limit){_MONEY}(?={_EACH}{_MONTH}\b)|(?!)))"
    r"(?:(?:\s*/\s*|\s+(?:per|an?|pro|par|por|al|im|je|each)\s+)(?P<period>\w+)|\s+(?P<adverb>(?:hour|dai|month|year)ly))?)"
)
"""Money in any currency; what is no sum of dollars per time is refused."""
_PROFESSION: Final = (
    r"(?!(?:servers|papers|parameters|layers|computers|orders|letters|numbers|clusters|containers|errors|vectors|tensors"
    r"|processors|accelerators|months|variants)\b)[^\W\d_]+(?:ers|ors|ists|ants|ees|ians|men|innen|eurs|euses|istes|istas|adores)"
)
"""Ending of the words for what people are: teachers, doctors, analysts, accountants."""
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_BOARDS: Final = re.compile(
    r"(?:(?P<front>\d{1,3})\s*[x×*]\s*)?(?P<name>\S.*?)(?:\s+[x×*]\s*(?P<behind>\d{1,3}))?(?: (?:gpu|card|board)s?)?"
)
"""Accelerators as people count them: 2x rtx 4090, rtx 4090 x2."""
_FIRST_MARK: Final = "\ue000"
"""First of the signs that stand in a text where accelerators were named."""
_MARK: Final = "[\ue000-\uf8ff]"
_SIZE: Final = re.compile(r"(?:\bllama\s)?\b(?P<size>\d+(?:\.\d+)?b)\b")
_NAME_WORDS: Final = 4
_MACHINE_WORDS: Final = 6
"""Most words of an accelerator's name: mac studio m3 ultra with 256gb."""
_STATED_MEMORY: Final = re.compile(r"\(?(?P<size>\d{1,3}) ?gb\b(?! (?:of )?(?:ram|system|ddr|nvme|ssd|disk))")
"""Memory behind the name of a board."""
_MEMORY_TOLERANCE: Final = 0.08
_MEMORY_FIRST: Final = re.compile(
    r"\b(?P<memory>\d{2,3}) ?gb "
    r"(?P<machine>(?:mac ?(?:studio|mini|book ?(?:pro|air))(?: m\d)?|m\d)(?: (?:ultra|max|pro))?)\b"
)
"""Memory of an Apple machine before its name."""


@functools.cache
def _words() -> Mapping[str, Mapping[str, Any]]:
    return read_toml(DATA_DIR / "question_words.toml")


def options_of_sentence(text: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the options for which a sentence stands, and notes on how it was understood.

    Raises: AdvisorError: nothing in it says what is asked, or it names an accelerator that the catalog does not have.
    """
    _refuse_purchase(text)
    reader = _Reader(text.lower())
    options = reader.read()
    if not options:
        raise AdvisorError(
            f"'{text}' is not understood",
            why="it names no use case, number of people, amount of work, model or budget",
            fix="advisor recommend --use-case chatbot --users 1000",
        )
    _refuse_without_load(text, dict(zip(options[::2], options[1::2], strict=True)))
    notes = [
        f"understood as: {shlex.join(options)}",
        *(reader.notes if {"--own", "--gpu"} & {*options} else ()),
        *reader.told,
    ]
    left = reader.left()
    if name := unknown_accelerator(reader.typed):
        accelerators.get(name)
    others = [word for word in left.split() if _is_like_a_model(word)]
    if others and "--model" not in options:
        models.get(others[0])
    if named := [word for word in others if models.find(word) is not None]:
        notes.append(
            f"one model is planned, and {', '.join(named)} is another: --models plans several on one fleet"
        )
    if left:
        notes.append(f"not part of the question: {left}")
    return options, tuple(notes)


@functools.cache
def _families() -> frozenset[str]:
    """Return the words with which names of models begin."""
    heads = (re.match(r"[a-z]{3,}", id_) for id_ in models.all_ids())
    return frozenset(head[0] for head in heads if head)


def _is_like_a_model(word: str) -> bool:
    """Whether a word may be the name of a model: it begins like one, and goes on."""
    head = re.match(r"[a-z]+(?=[-.\d])", word)
    return head is not None and head[0] in _families()


def _refuse_purchase(text: str) -> None:
    """Refuse a question which machine to buy, with the command that plans it for the sum and the model that are told.

    Raises: AdvisorError: it is one.
    """
    lower = text.lower()
    money = _BUDGET.search(lower)
    is_rented = re.search(rf"\b(?:{_any('before', 'rented')})\b", lower)
    is_at_home = _AT_HOME.search(lower) is not None
    if is_at_home and money is None:
        money = _SUM_ALONE.search(lower)
    if is_rented or not (is_at_home or _BUYS.search(lower)) or (money and _has_period(money)):
        return
    if money is None and not _BOUGHT.search(lower):
        return
    options = _Reader(lower if money is None else lower.replace(money[0], " ")).read()
    told = dict(zip(options[::2], options[1::2], strict=True))
    currency = None if money is None else re.search(_CURRENCY, money["budget"])
    is_foreign = currency is not None and not re.search(r"\$|usd|dollar|bucks", currency[0])
    usd = (
        "" if money is None else " --budget USD" if is_foreign else f" --budget {_sum_in(money['money']):.0f}"
    )
    model = f" --model {told['--model']}" if "--model" in told else ""
    model += f" --precision {told['--precision'].partition(',')[0]}" if "--precision" in told else ""
    learns = " --workload finetune" if told.get("--workload") == "finetune" else ""
    users = told.get("--users") or told.get("--concurrency")
    raise AdvisorError(
        f"'{text}' asks which machine to buy",
        why="advisor recommend ranks machines that are rented, or that you have"
        + (
            f"; prices are in US dollars, and {money['budget'].strip()} are not"
            if money and is_foreign
            else ""
        ),
        fix=f"advisor build{usd}{model}{learns}",
        hint=f"--concurrency N says how many of {users} users wait for an answer at once" if users else "",
    )


def _has_period(money: re.Match[str]) -> bool:
    """Whether a sum is one per hour, day or month."""
    named = money.groupdict()
    return bool(named.get("period") or named.get("adverb"))


def _sum_in(money: str) -> float:
    return parse_usd(re.sub(r"[^\d.,km]", "", money), example="5000")


def _refuse_without_load(text: str, options: Mapping[str, str]) -> None:
    """Refuse a question about memory, or about the speed of one request, with the command that answers it.

    Raises: AdvisorError: it is one.
    """
    lower = text.lower()
    if (memory := _MEMORY_OF_A_CARD.search(lower)) and not {"--own", "--gpu", "--rate"} & options.keys():
        raise AdvisorError(
            f"'{memory[0]}' names no accelerator",
            why="speeds and prices are those of a card, not of its memory",
            fix=f"name it: '{text.replace(text[memory.start() : memory.end()], 'an RTX 4090')}'",
        )
    if _API.search(lower) and _CHOICE.search(lower):
        raise AdvisorError(
            f"'{text}' asks whether to run a model or to call an API",
            why="advisor recommend ranks machines alone",
            fix=f"advisor cost --model {options.get('--model', 'ID')} {_load_of_a_bill(options)}",
        )
    if _RENT_OR_BUY.search(lower):
        raise AdvisorError(
            f"'{text}' asks whether to rent machines or to buy them",
            why="advisor recommend ranks machines that are rented, or that you have",
            fix=f"advisor cost --model {options.get('--model', 'ID')} {_load_of_a_bill(options)}",
        )
    if _MEMORY.search(lower) and not {*_LOADS, "--own"} & options.keys():
        raise _asks_memory(text, options)
    own = options.get("--own", "")
    hardware = own or options.get("--gpu", "")
    has_load = {*_LOADS, "--concurrency", "--items"} & options.keys()
    if "--model" not in options or not hardware or re.search(r",| or ", hardware) or has_load:
        return
    is_rented = re.search(rf"\b(?:{_any('before', 'rented')})\b", lower) is not None
    if is_rented and not own:
        return
    if _FORMAT_ASKED.search(lower):
        raise _asks_memory(text, {"--precision": "q4_k_m", **options}, "which format fits")
    limits = options.keys() & {"--tpot-p99", "--ttft-p99"}
    if (_SPEED.search(lower) and not limits) or (_MEASURED.search(lower) and _JUDGED.search(lower)):
        in_host = re.search(r"\b(?:ram|main memory|system memory)\b", lower) is not None
        precision = options.get("--precision", "q4_k_m" if in_host else "").partition(",")[0]
        format_ = f" --precision {precision}" if precision else ""
        format_ += " --host-experts all" if in_host else ""
        raise AdvisorError(
            f"'{text}' asks for the speed of one request",
            why="advisor recommend ranks machines for a load within limits of latency",
            fix=f"advisor simulate serve --model {options['--model']}{format_} --gpu {hardware} --concurrency 1 "
            "--input-tokens 1000 --output-tokens 300",
        )
    if _FITS.search(lower):
        raise _asks_memory(text, options)


def _load_of_a_bill(options: Mapping[str, str]) -> str:
    """Return the load of a question as `advisor cost` takes it: the requests per second that it states, or those of its
    users in the mean of a day, or else an example."""
    if "--rate" in options:
        return f"--rate {options['--rate']}"
    case = get_use_case(options["--use-case"])[1] if "--use-case" in options else None
    lengths = f" --profile {case.profile}" if case is not None else ""
    if case is None or case.requests_per_user_day is None or "--users" not in options:
        return f"--tokens-per-day 50M{lengths}"
    users = parse_count(options["--users"], "--users")
    return f"--rate {users * case.requests_per_user_day / DAY_S:.3g}{lengths}"


_FORMAT_ASKED: Final = re.compile(
    r"\b(?:which|what|best|welche[rs]?|quelle?|qué|quale)\b[^.?!,]{0,15}"
    r"\b(?:quants?|quanti[sz]ation|quantisierung|quantification|cuantizaci[oó]n|quantizzazione|gguf)\b"
)
"""Questions about the format of weights."""


def _asks_memory(text: str, options: Mapping[str, str], what: str = "for memory alone") -> AdvisorError:
    """Return the refusal of a question about memory alone, with the command that answers it."""
    one = {
        name: value.partition(",")[0] if name == "--precision" else value for name, value in options.items()
    }
    named = " ".join(f"{_OF_MEMORY[name]} {value}" for name, value in one.items() if name in _OF_MEMORY)
    own = options.get("--own", "ID").removeprefix("1x")
    gpu = "" if "--gpu" in options else f" --gpu {own}"
    return AdvisorError(
        f"'{text}' asks {what}",
        why="advisor recommend ranks machines for a load",
        fix=f"advisor memory {named}{gpu}, or name a load: for 20 users",
    )


class _Named(NamedTuple):
    """An accelerator as a question names it."""

    mark: str
    """Sign that stands in the text in its place."""
    typed: str
    number: int
    id: str
    is_own: bool
    """Whether its number or its owner is told."""
    has_article: bool
    """Whether an article stands before it, which counts one where another is compared with it."""


class _TokenRate(NamedTuple):
    """Tokens of a period, as a question names them: of prompts, of outputs, or of both if neither is told."""

    amount: str
    period: str
    is_input: bool
    is_output: bool


class _Reader:
    """Text of a question, of which what was understood is taken away."""

    def __init__(self, text: str) -> None:
        self.typed = _MEMORY_FIRST.sub(r"\g<machine> \g<memory>gb", " ".join(text.split()))
        self.says_q4 = re.search(r"\bq4\b", self.typed) is not None
        """Whether 4 bits are asked for, in whichever file."""
        self.nodes = 1
        """Nodes of which each holds the accelerators that are counted."""
        self.is_backlog = False
        """Whether the items of the work may wait."""
        self.notes: tuple[str, ...] = ()
        self.told: tuple[str, ...] = ()
        """Notes on what the question leaves open."""

    def read(self) -> list[str]:
        """Return the options of the question."""
        found: dict[str, str] = {}
        for word, number in _words()["numbers"].items():
            self.typed = re.sub(rf"\b{word}\b", str(number), self.typed)
        self.nodes, self.typed, self.notes = nodes_in(self.typed)
        if adapters := self._take(rf"{_AMOUNT}\s+(?:[^\W\d]+ )?(?:lora )?adapters\b"):
            found["--adapters"] = adapters["amount"].strip()
        learns = self._learns()
        if budget := self._take(_BUDGET):
            found["--budget"] = _dollars(budget, is_total=learns)
        tokens = None if learns else self._token_rate()
        found |= {} if learns else self._context()
        found |= self._latencies() | ({} if learns else self._lengths())
        found |= self._counts(learns=learns)
        work = self._named_work()
        before = self.typed
        users, case = self._people(is_counted="--concurrency" in found)
        if case:
            work = ""
        elif work in _OF_CLUSTERS:  # what is trained has no users yet
            self.typed = before
            users = ""
        if work in _LEARNING:
            found |= self._tokens()
        found |= self._formats(r"(?<!\S)", r"(?!\S)")
        model = self._model()
        known = models.find(model) if model else None
        if work or not users:
            found |= self._workload()
        if not users and (own := self._work_of(known)):
            found.setdefault("--workload", own)
        work = found.get("--workload", "")
        found |= {} if users else self._work(work)
        found |= self._latency_of_what(work) if work not in _LEARNING else {}
        is_load = "--items" in found or ("--rate" in found and work not in _OF_ITEMS)
        if work not in _LEARNING and not is_load:
            found = self._first_token(work) | found
        found |= self._limit_of_backlog(found)
        case = self._use_case(case, found, has_users=bool(users))
        if tokens is not None and not found.keys() & set(_LOADS):
            found["--rate"] = self._requests(tokens, found, case)
        found |= self._frameworks() if work in _OF_CLUSTERS else {}
        found |= self._formats(r"\b", r"\b") | self._engines() | self._machines(found)
        self._name_model(found, model or self._size())
        if case and "--workload" not in found:
            found["--use-case"] = case
        if users:
            found["--users"] = users
        return [word for pair in found.items() for word in pair]

    def _work_of(self, known: Model | None) -> str:
        """Return the work that a model alone tells: one that makes no text, or one that sees and is asked of images."""
        if known is None:
            return ""
        sees = known.vision is not None and re.search(rf"\b(?:{_any('items', 'images')})\b", self.typed)
        return "vision" if sees else OTHER_WORK.get(known.workload, "")

    def _learns(self) -> bool:
        """Whether a model is trained or tuned."""
        learning = (
            *(_any("workloads", name) for name in _LEARNING),
            *map(_join, _words()["methods"].values()),
        )
        return any(re.search(rf"\b(?:{words})\b", self.typed) for words in learning)

    def _use_case(self, case: str, found: dict[str, str], *, has_users: bool) -> str:
        """Return the use case that the words name; of several that are named, chatting is the least telling, but says
        how often users send something."""
        named = [case] if case else []
        chats = False
        for name, words in _words()["use_cases"].items():
            if taken := self._take(rf"\b(?:{_join(words)})\b"):
                named.append(name)
                chats = chats or "chat" in taken[0]
        chosen = next((name for name in named if name != _CHAT), "".join(named[:1]))
        if has_users and chats and chosen != _CHAT:
            daily = get_use_case(_CHAT)[1].requests_per_user_day
            found["--requests-per-user"] = f"{daily:g}/day"
            told = f"its users are taken to send as many requests as those of a chatbot, {daily:g} a day"
            self.told = (*self.told, told)
        return chosen

    def _formats(self, start: str, end: str) -> dict[str, str]:
        """Return the formats of weights and cache that are named by words between these borders."""
        found: dict[str, str] = {}
        for name, words in _words()["formats"].items():
            cache = r"(?:kv[ -]?cache|kv|cache)\b"
            if self._take(rf"\b(?:{_join(words)})\s+{cache}") or self._take(
                rf"\b{cache}\s+in\s+(?:{_join(words)})\b"
            ):
                found["--kv-precision"] = name
            if self._take(rf"{start}(?:{_join(words)}){end}"):
                found["--precision"] = name
        return found

    def _counts(self, *, learns: bool) -> dict[str, str]:
        """Return what is counted by the word behind its number: 50 concurrent users, 32k context, context of 32k."""
        found: dict[str, str] = {}
        for name, words in _words()["counts"].items():
            if learns and name != "concurrency":
                continue
            if count := self._take(rf"{_AMOUNT}[\s-]+(?:(?:de|di|of)\s+)?(?:{_join(words)})\b"):
                found[f"--{name}"] = count["amount"].strip()
        return found

    def _context(self) -> dict[str, str]:
        """Return the context that is told behind its name: context of 32k, a context window of 128k tokens."""
        tokens = rf"(?:[\s-]*(?:{_any('items', 'tokens')})\b|(?!\s*[^\W\d]))"
        about = rf"(?:(?:of|:|=|is|{_any('before', 'about')})\s*)*"
        count = self._take(rf"\b(?:{_any('counts', 'max-context')})\s*{about}{_AMOUNT}{tokens}")
        return {"--max-context": count["amount"].strip()} if count else {}

    def _engines(self) -> dict[str, str]:
        """Return the engines that are named."""
        named = self._programs("engines")
        return {"--engine": ",".join(named)} if named else {}

    def _frameworks(self) -> dict[str, str]:
        """Return the frameworks that are named to train with."""
        named = self._programs("frameworks")
        return {"--framework": ",".join(named)} if named else {}

    def _programs(self, kind: str) -> list[str]:
        """Return the programs of a kind that are named."""
        programs = _words()[kind].items()
        return [name for name, words in programs if self._take(rf"(?<!\S)(?:{_join(words)})(?!\w)")]

    def _token_rate(self) -> _TokenRate | None:
        """Return the tokens of a period, 1B tokens per day; those of a second may be a reader's speed."""
        for period, words in _words()["periods"].items():
            if period == "second":
                continue
            kinds = "|".join(
                rf"(?P<{name}>{_join(_words()['token_kinds'][name])})" for name in ("input", "output")
            )
            tokens = rf"(?:(?:{kinds})\s+)?(?:{_any('items', 'tokens')})"
            forms = [rf"{tokens}{_EACH}(?:{_join(words)})", *_words()["token_rates"].get(period, ())]
            if rate := self._take(rf"{_AMOUNT}\s*(?:{'|'.join(forms)})\b"):
                return _TokenRate(rate["amount"].strip(), period, bool(rate["input"]), bool(rate["output"]))
        return None

    def _requests(self, tokens: _TokenRate, found: Mapping[str, str], case: str) -> str:
        """Return the rate of requests that have a rate of tokens, by the lengths of the question or of its use case."""
        use_case = get_use_case(case or "chatbot")[1]
        profile = profiles.get(use_case.profile)
        usual = {
            "--input-tokens": use_case.mean_input_tokens or profile.mean_input_tokens,
            "--output-tokens": use_case.mean_output_tokens or profile.mean_output_tokens,
        }
        prompt, output = (
            parse_count(found[name], name) if name in found else float(mean) for name, mean in usual.items()
        )
        each = prompt * (not tokens.is_output) + output * (not tokens.is_input)
        rate = f"{parse_count(tokens.amount, '--rate') / each:.0f}/{tokens.period}"
        self.told = (f"a request is taken as {prompt:,.0f} tokens in and {output:,.0f} out",)
        return rate

    def _machines(self, found: Mapping[str, str]) -> dict[str, str]:
        """Return the accelerators that are named, and the place of those that are rented."""
        providers = providers_in(self.typed, _words())
        self.typed = providers.rest
        owners = rf"\b(?:{_any('before', 'owner')})\b"
        told = len(re.findall(owners, self.typed))
        named = self._hardware()
        is_owned = "--own" in named and len(re.findall(owners, self.typed)) < told
        if self.nodes > 1 and "--own" not in named:
            self.typed += f" {self.nodes} nodes"
        if found.get("--workload") in ("diffusion", "vision") and (
            size := self._take(r"\b(?P<size>\d{3,4}\s?[x×]\s?\d{3,4})\b")
        ):
            named["--image-size"] = size["size"]
        if is_owned or ("--own" in named and not providers.ids):
            self.typed = " ".join((self.typed, *providers.words))  # what is owned is not rented from them
            return named
        if providers.refusal is not None:
            raise providers.refusal
        if "--own" in named:  # a provider has them: 8 h100 on aws
            named = {("--gpu" if name == "--own" else name): each for name, each in named.items()}
            named["--gpu"] = named["--gpu"].replace(" or ", ",")
        if "--gpu" not in named:
            makers, self.typed = makers_in(self.typed, _words())
            named |= {"--gpu": ",".join(makers)} if makers else {}
        if providers.ids:
            named["--provider"] = ",".join(providers.ids)
        if self.says_q4 and found.get("--precision") == "q4_k_m":
            named["--precision"] = "q4_k_m,int4"  # engines of rented servers read other files of 4 bits
        return named | self._place() | self._terms()

    def _terms(self) -> dict[str, str]:
        """Return the terms on which machines are rented, if the question names some."""
        terms = [name for name, words in _words()["terms"].items() if self._take(rf"\b(?:{_join(words)})\b")]
        return {"--term": ",".join(terms)} if terms else {}

    def _name_model(self, found: dict[str, str], model: str) -> None:
        """Add the model, of a distillation that of the student, to what was found."""
        if found.get("--workload") == "distill" and (student := self._model() or self._size()):
            found["--teacher"] = model
            model = student
        if model:
            found["--model"] = model
        elif context := found.pop("--max-context", ""):
            self.typed += f" {context} context"  # without a model there is no window to compare it with

    def _latencies(self) -> dict[str, str]:
        """Return the times that are named, and the time of a token for a speed that each reader has."""
        found: dict[str, str] = {}
        limit = rf"(?:[\s:=<≤,()]|\b(?:is|of|at|at most|max|in|en|{_any('before', 'first_token')})\b)"
        before_it = rf"(?:\b(?P<before>{_PERCENTILE})\W*(?:of\s+)?(?:the\s+)?)?"
        after_it = rf"(?:{limit}*(?P<after>{_PERCENTILE}))?"
        for metric, words in _words()["latencies"].items():
            named = rf"{before_it}\b(?:{_join(words)})\b{after_it}"
            behind = rf"{limit}*\b{_TIME}\s+(?:(?:to|for|per|until|bis zum|the)\s+)*{named}"
            if time := self._take(rf"{named}{limit}*{_TIME}") or self._take(behind):
                option = _objective(metric, time["before"] or time["after"])
                found[option] = _check(time["time"], functools.partial(parse_seconds, option=option))
        per_second = rf"(?:tps|t/s|(?:tokens?|toks?){_EACH}(?:{_join(_words()['periods']['second'])}))"
        each = rf"(?P<each>{_EACH}(?:{_any('people', 'each')})\b|,?\s+(?:{_any('before', 'each')})\b)?"
        before = self.typed
        if speed := self._take(rf"{_AMOUNT}\s*{per_second}{each}"):
            tokens_per_s = parse_count(speed["amount"].strip(), "--tpot-p99")
            if not speed["each"] and tokens_per_s > _FASTEST_READ:
                self.typed = before
            else:
                found.setdefault("--tpot-p99", f"{1.0 / tokens_per_s / MILLISECOND_S:.3g}ms")
        return found

    def _place(self) -> dict[str, str]:
        """Return the country, or the union of countries, in which machines must stand."""
        for name, words in _words()["residency"].items():
            if self._take(rf"\b(?:{_any('before', 'place')})\s+(?:{_join(words)})\b"):
                return {"--residency": name}
        return {}

    def _lengths(self) -> dict[str, str]:
        """Return the lengths that are told of prompts and of outputs: 600 tokens in and 20 out, of 12k tokens each."""
        found: dict[str, str] = {}
        tokens = rf"(?:{_any('items', 'tokens')})"
        pair = self._take(
            rf"{_AMOUNT}\s*(?:{tokens}\s+)?(?:in|input)\b\W*(?:and\b)?\s*"
            rf"{_SECOND_AMOUNT}\s*(?:{tokens}\s+)?(?:out|output)\b"
        )
        each = rf"(?:\s+(?:{_any('before', 'each')}|long))?\s+(?:{_any('before', 'output')})\s+"
        pair = pair or self._take(rf"{_AMOUNT}[\s-]*{tokens}\b{each}{_SECOND_AMOUNT}(?:[\s-]*{tokens})?\b")
        if pair is not None:
            return {"--input-tokens": pair["amount"].strip(), "--output-tokens": pair["second"].strip()}
        for name, words in _words()["lengths"].items():
            joined = rf"(?:\s+(?:lengths?|sizes?|of|is|are|{_any('before', 'about')})|:)*\s*"
            if length := self._take(rf"\b(?:{_join(words)}){joined}{_AMOUNT}[\s-]*{tokens}\b"):
                found[f"--{name}-tokens"] = length["amount"].strip()
        other = rf"(?!{_AMOUNT.replace('?P<amount>', '?:')}[\s-]*(?:{_join(_words()['counts']['output-tokens'])}))"
        periods = _join(word for words in _words()["periods"].values() for word in words)
        for name in ("output", "input"):
            if f"--{name}-tokens" in found:
                continue
            ahead = rf"(?<!\w)(?:{_any('before', name)})\s+(?:(?:{_any('before', 'about')})\s*)*"
            behind = rf"(?:\s+(?:{_any('before', 'each')}|long))?"
            before = self.typed
            not_told = rf"(?!{_EACH}(?:{periods})\b| of\b)"
            length = self._take(rf"{ahead}{other}{_AMOUNT}[\s-]*{tokens}\b{not_told}{behind}")
            if name == "input" and length is None:
                counted = rf"(?:{_any('items', 'any')}|{_any('items', 'one')})\b"
                of_items = rf"\s+(?=(?:(?!(?:per|for|in|of|and|with)\b)[^\W\d][\w-]*\s+)?{counted})"
                length = self._take(
                    rf"\(?{_AMOUNT}[\s-]*{tokens}(?:\)|\s+(?:{_any('before', 'each')})\b|{of_items})"
                )
            if length and parse_count(length["amount"].strip(), f"--{name}-tokens") <= _LONGEST_PROMPT:
                found[f"--{name}-tokens"] = length["amount"].strip()
            else:
                self.typed = before
        return found

    def _tokens(self) -> dict[str, str]:
        """Return the tokens of a training: those that are told, or items by the tokens of each; times the epochs."""
        tokens = rf"(?:{_any('items', 'tokens')})\b(?!\s*(?:/|per))"
        items = rf"(?:[^\W\d][\w-]*\s+)?(?:{_any('items', 'any')}|{_any('items', 'learned')})"
        each = rf"(?:{_any('before', 'each')})\b"
        joined = rf"(?:[\s,x×*(@~]|\b(?:{_any('before', 'input')}|{_any('before', 'about')})\b|\b{each})*"
        amounts = self._take(rf"{_AMOUNT}\s*{items}\b{joined}{_SECOND_AMOUNT}[\s-]*{tokens}(?:\s+{each})?")
        amounts = amounts or self._take(rf"{_AMOUNT}[\s-]*{tokens}(?P<second>)")
        if amounts is None:
            return {}
        epochs = self._take(rf"(?:for )?{_AMOUNT}\s+(?:{_any('items', 'epochs')})\b")
        factors = [amounts["second"], epochs["amount"] if epochs else ""]
        if not any(factors):
            return {"--tokens": amounts["amount"].strip()}
        count = parse_count(amounts["amount"].strip(), "--tokens")
        for factor in filter(None, factors):
            count *= parse_count(factor.strip(), "--tokens")
        return {"--tokens": f"{count:.0f}"}

    def _preferences(self) -> dict[str, str]:
        """Return the steps in which a number of preferences is learned once, or as often as epochs are told."""
        amount = self._take(
            rf"(?:\bon\s+)?{_AMOUNT}\s+(?:[^\W\d][\w-]*\s+)?(?:{_any('items', 'preferences')})\b"
        )
        if amount is None:
            return {}
        epochs = self._take(rf"(?:for )?{_AMOUNT}\s+(?:{_any('items', 'epochs')})\b")
        count = parse_count(amount["amount"].strip(), "--rl-steps")
        count *= parse_count(epochs["amount"].strip(), "--rl-steps") if epochs else 1
        in_step = PROMPTS_OF_A_STEP
        steps = math.ceil(count / in_step)
        self.told = (
            *self.told,
            f"{count:,.0f} preferences are {steps:,} steps of {in_step}: --prompts sets another size",
        )
        return {"--rl-steps": str(steps)}

    def _first_token(self, workload: str) -> dict[str, str]:
        """Return the limit of a time that is not named: to the first token, or of an image, a text or a segment."""
        time = self._take(
            rf"(?:\b(?P<before>{_PERCENTILE})\s+)?(?:{_any('before', 'first_token')})\s+{_TIME}"
            rf"(?:\s+(?:at\s+)?(?P<after>{_PERCENTILE}))?"
        )
        if time is None:
            return {}
        option = _objective("latency" if workload in _OF_ITEMS else "ttft", time["before"] or time["after"])
        return {option: _check(time["time"], functools.partial(parse_seconds, option=option))}

    def _named_work(self) -> str:
        """Return the kind of work that the words name; empty for serving, which a use case means."""
        cases = (word for words in _words()["use_cases"].values() for word in words)
        if re.search(rf"\b(?:{_join(cases)})\b", self.typed):
            return ""
        before = self.typed, self.told
        work = self._workload().get("--workload", "")
        self.typed, self.told = before
        return work

    def _latency_of_what(self, work: str) -> dict[str, str]:
        """Return the limit of a latency whose statistic is named and whose end is not: that of an item.

        Raises: AdvisorError: the work makes text, whose latency may end with the first token or the last.
        """
        time = self._take(
            rf"\b(?P<percentile>{_PERCENTILE})\s+(?:latency|latencies|latenz)\b\W*"
            rf"(?:(?:is|of|at|{_any('before', 'first_token')})\s+)*\W*{_TIME}"
        )
        if time is None:
            return {}
        if work in _OF_ITEMS:
            return {_objective("latency", time["percentile"]): time["time"]}
        raise AdvisorError(
            f"'{time[0]}' may be of the first token or of the whole output",
            why="each has an objective of its own",
            fix=f"'{time['percentile']} TTFT {time['time']}', or 'p99 end-to-end {time['time']}'",
        )

    def _limit_of_backlog(self, found: Mapping[str, str]) -> dict[str, str]:
        """Return a limit of latency for items that may wait, unless one is told."""
        if not self.is_backlog or "--latency-p99" in found:
            return {}
        told = f"items may wait: {_BACKLOG_LATENCY} is taken; --latency-p99 sets another limit"
        self.told = (*self.told, told)
        return {"--latency-p99": _BACKLOG_LATENCY}

    def _workload(self) -> dict[str, str]:
        """Return the kind of work that the words name."""
        for name, words in _words()["methods"].items():
            if self._take(rf"\b(?:{_join(words)})\b"):
                for each in _words()["workloads"]["finetune"]:
                    self._take(rf"\b{re.escape(each)}\b")
                return {"--workload": "finetune", "--method": name}
        for name, words in _words()["workloads"].items():
            if taken := self._take(rf"\b(?:{_join(words)})\b"):
                loop = {"--algorithm": taken[0]} if taken[0] in get_args(AlgorithmName) else {}
                if name == "finetune":
                    self._take(rf"\b(?:{_any('workloads', 'train')})\b")
                    told = (
                        "no method is named: all weights are tuned; --method lora takes a part of the memory"
                    )
                    self.told = (*self.told, told)
                return {"--workload": name, **loop}
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
            number = self._take(rf"(?:\bon\s+)?{_AMOUNT}\s*(?:gpus|accelerators|cards)\b")
            gpus = {"--gpus": number["amount"].strip()} if number else {}
            return self._tokens() | gpus | self._deadline()
        if workload == "rl" and (steps := self._preferences()):
            return steps
        units = _join(word for words in _words()["audio"].values() for word in words)
        recorded = rf"(?:(?:of|de|di)\s+)?(?:{_any('items', 'audio')})\b"
        audio = rf"{_AMOUNT}\s*(?P<unit>{units})\s+{recorded}"
        if workload == "speech":
            self.typed = re.sub(audio, _segments_of, self.typed)
        if workload == "speech" and (streams := self._take(rf"{_AMOUNT}\s+(?:[^\W\d]+ )?streams\b")):
            return {"--rate": f"{parse_count(streams['amount'], '--rate') / SEGMENT_S:.6g}/second"}
        pairs = self._pairs_of_a_query() if workload == "rerank" else 1.0
        counted = rf"{_AMOUNT}\s*\b(?:[^\W\d][\w-]*\s+)?"
        many = rf"{counted}(?:{_any('items', 'any')})\b"
        items = rf"{counted}(?:{_any('items', 'any')}|{_any('items', 'one')})\b"
        for period, words in _words()["periods"].items():
            done = r"(?:\s+[^\W\d]+(?:ed|en|iert|és|ados))?"
            if found_rate := self._take(rf"{items}{done}{_EACH}(?:{_join(words)})\b"):
                rate = f"{pairs * parse_count(found_rate['amount'], '--rate'):.12g}/{period}"
                self.is_backlog = workload == "speech" and period in _PERIODS_OF_A_BACKLOG
                return {"--rate": rate}
        for period, words in _words()["periods"].items() if workload in _OF_ITEMS else ():
            if found_rate := self._take(rf"{_AMOUNT}\s*{_EACH}(?:{_join(words)})\b"):
                return {"--rate": f"{pairs * parse_count(found_rate['amount'], '--rate'):.12g}/{period}"}
        for period, words in _words()["request_rates"].items():
            if found_rate := self._take(rf"{_AMOUNT}\s*(?:{_join(words)})\b"):
                return {"--rate": f"{parse_count(found_rate['amount'], '--rate'):.12g}/{period}"}
        before = self.typed
        amount = self._take(many)
        if amount is None:
            return self._text_in_all() if workload in ("", "batch") else {}
        deadline = self._deadline()
        if not deadline and (alone := self._take(_LONG_TIME)):
            deadline = {"--deadline": alone["time"]}
        count = (
            f"{pairs * parse_count(amount['amount'], '--items'):.12g}"
            if pairs != 1.0
            else amount["amount"].strip()
        )
        if workload in ("", "batch"):
            return {"--workload": "batch", "--items": count, **deadline, **self._lengths_in_text()}
        if workload in _OF_ITEMS:
            return {"--items": count, **deadline}
        if workload == "vision" and deadline:
            days = parse_seconds(deadline["--deadline"], "--deadline") / DAY_S
            return {"--rate": f"{parse_count(count, '--items') / days:.0f}/day"}
        self.typed = before
        return {}

    def _lengths_in_text(self) -> dict[str, str]:
        """Return the lengths of items that are told in pages or words."""
        for unit, tokens in _TOKENS_OF_TEXT.items():
            behind = rf"(?:\s+(?:{_any('before', 'each')}|long))?"
            ahead = rf"(?:\b(?:{_any('before', 'input')})\s+)?"
            if length := self._take(rf"{ahead}{_AMOUNT}[\s-]*(?:{_any('items', unit)})\b{behind}"):
                return self._lengths_of(
                    unit, tokens * parse_count(length["amount"].strip(), "--input-tokens")
                )
        return {}

    def _text_in_all(self) -> dict[str, str]:
        """Return the pages of a text that is told in all, with its deadline; nothing without one."""
        before = self.typed
        for unit, tokens in _TOKENS_OF_TEXT.items():
            if whole := self._take(rf"{_AMOUNT}\s*(?:{_any('items', unit)})\b"):
                page = _TOKENS_OF_TEXT["page"]
                pages = parse_count(whole["amount"].strip(), "--items") * tokens / page
                if deadline := self._deadline():
                    items = {"--workload": "batch", "--items": f"{pages:.0f}"}
                    return {**items, **deadline, **self._lengths_of("page", page)}
            self.typed = before
        return {}

    def _lengths_of(self, unit: str, tokens: float) -> dict[str, str]:
        """Return the lengths of an item with a number of tokens; a translation is as long as its text."""
        self.told = (*self.told, f"a {unit} is taken as {_TOKENS_OF_TEXT[unit]:,.4g} tokens of English")
        is_as_long = self._take(rf"\b(?:{_any('items', 'translated')})\b") is not None
        return {"--input-tokens": f"{tokens:.0f}"} | (
            {"--output-tokens": f"{tokens:.0f}"} if is_as_long else {}
        )

    def _pairs_of_a_query(self) -> float:
        """Return the texts that are ranked for each query; 1 if the question does not say it."""
        texts = self._take(
            rf"{_AMOUNT}\s*(?:{_any('items', 'any')}|pairs|candidates){_EACH}(?:query|question|request|search)\b,?"
        )
        return parse_count(texts["amount"].strip(), "--rate") if texts else 1.0

    def _deadline(self) -> dict[str, str]:
        """Return the time that work may take."""
        found: dict[str, str] = {}
        if day := self._take(rf"(?:{_any('before', 'deadline')})\s+(?P<day>{'|'.join(_WEEKDAYS)})\b"):
            ahead = _WEEKDAYS.index(day["day"]) - datetime.date.today().weekday()
            found["--deadline"] = f"{(ahead - 1) % 7 + 1}d"
        for time_taken, words in _words()["deadlines"].items():
            if self._take(rf"\b(?:{_join(words)})\b"):
                found["--deadline"] = time_taken
        limit = rf"(?:{_any('before', 'deadline')}|{_any('before', 'first_token')})"
        behind = rf"\s+(?:{_any('items', 'deadline')})\b"
        if time := self._take(rf"(?:\b{limit}\s+)+{_LONG_TIME}") or self._take(rf"{_LONG_TIME}{behind}"):
            found["--deadline"] = _check(time["time"], functools.partial(parse_seconds, option="--deadline"))
        return found

    def _hardware(self) -> dict[str, str]:
        """Return the accelerators that are named: owned if their number or owner is told, and nothing says that they
        are rented. Of alternatives each is planned alone; others than those of the first option stay in the text."""
        named: list[_Named] = []
        while (found := self._next_hardware(mark=chr(ord(_FIRST_MARK) + len(named)))) is not None:
            named.append(found)
        named.sort(key=lambda one: self.typed.index(one.mark))
        if not named:
            return {}
        may_be_either = len(re.findall(_MARK, self.typed)) > 1 and re.search(
            rf"{_MARK}[^{_MARK[1:-1]}]*\b(?:{_any('before', 'either')})(?!\w)", self.typed
        )
        is_rented = self._take(rf"\b(?:{_any('before', 'rented')})\b") is not None
        asks_which = self._take(_WHICH_MODEL) is not None  # what runs on a machine is asked by who has it
        kept = named if may_be_either else [one for one in named if one.is_own == named[0].is_own]
        for one in named:
            self.typed = self.typed.replace(one.mark, "" if one in kept else one.typed)
        counts = [f"{self.nodes * one.number}x{one.id}" for one in kept]
        is_own = asks_which or any(
            one.is_own or (may_be_either and one.has_article) or accelerators.by_id(one.id).unified_memory
            for one in kept
        )
        if is_own and not is_rented:
            return {"--own": (" or " if may_be_either else ",").join(counts)}
        named_ids = [count if one.is_own else one.id for count, one in zip(counts, kept, strict=True)]
        return {"--gpu": ",".join(dict.fromkeys(named_ids))}

    def _next_hardware(self, mark: str) -> "_Named | None":
        """Return the next accelerator that is named, in any number of words, and leave a mark in its place."""
        words = self.typed.split()
        for count in range(min(_MACHINE_WORDS, len(words)), 0, -1):
            for place in range(len(words) - count + 1):
                found = _BOARDS.fullmatch(" ".join(words[place : place + count]).strip(" .,:;?!()"))
                if found is None or re.search(_MARK, found[0]):
                    continue
                before = " ".join(words[:place])
                counted = rf"(?P<number>\d{{1,5}}|\b(?:an?|{_any('before', 'one')}))"
                told = re.search(
                    rf"(?:\b(?:{_any('before', 'owner')}|the) )*(?:{counted} ?[x×*]? ?)?"
                    rf"(?:\b(?:{_any('before', 'kind_of_hardware')}|{_any('before', 'portable')}) )*$",
                    f"{before} ",
                )
                assert told is not None
                rest = before[: told.start()].split()
                is_behind = rest[-1:] != [] and rest[-1] in _words()["before"]["hardware"]
                number: str | None = found["front"] or found["behind"] or told["number"]
                has_article = number in ("a", "an")
                number = None if has_article else "1" if number in _words()["before"]["one"] else number
                is_own = bool(number or re.search(rf"\b(?:{_any('before', 'owner')})\b", told[0]))
                is_alone = (
                    "," in f",{before}"[-1:]
                    and "," in f"{words[place + count - 1]},"[-1:]
                    and place + count == len(words)
                )
                is_either = bool(
                    {*words[place + count : place + count + 1], *rest[-1:]} & {*_words()["before"]["either"]}
                )
                # One word without a digit may mean anything; two are a name where an accelerator has it.
                is_name = " " in found["name"].strip() or any(sign.isdigit() for sign in found["name"])
                is_name = is_name and (not found["name"].isdigit() or is_alone or is_either)
                if (
                    not (is_name or is_behind or is_own or (has_article and len(found["name"]) > 3))
                    or (known := _accelerator(found["name"])) is None
                ):
                    continue
                known = self._with_stated_memory(
                    found["name"], known, words[place + count :], int(number or 1)
                )
                if (stated := _STATED_MEMORY.match(" ".join(words[place + count :]))) is not None:
                    del words[place + count : place + count + len(stated[0].split())]
                typed = " ".join((told[0].strip(), found[0]))
                end = re.search(r"[,.;?!]*$", words[place + count - 1])
                marked = mark + (end[0] if end else "")
                self.typed = " ".join((*(rest[:-1] if is_behind else rest), marked, *words[place + count :]))
                return _Named(mark, typed, int(number or 1), known, is_own, has_article)
        return None

    def _with_stated_memory(self, name: str, known: str, behind: list[str], number: int) -> str:
        """Return the accelerator of a name that has the memory which stands behind it, that of a laptop where one is
        named; the one of the name alone where no memory stands there, or that of all boards together.

        Raises: UnknownNameError: no board of this name has that memory.
        """
        stated = _STATED_MEMORY.match(" ".join(behind[:3]))
        size = int(stated["size"]) * GIB if stated is not None else 0

        def fits(id_: str, count: int = 1) -> bool:
            held = accelerators.by_id(id_).memory_bytes
            return not size or not held or abs(size / (count * held) - 1.0) < _MEMORY_TOLERANCE

        names = (f"{name} {word}" for word in _words()["before"]["portable"] if word in self.typed)
        portable = next((other.id for each in names if (other := accelerators.find(each))), None)
        if portable is not None and fits(portable):
            return portable
        if stated is None or fits(known) or fits(known, number):
            return known
        return accelerators.get(f"{name} {stated['size']}gb").record.id

    def _model(self) -> str:
        """Return the model that the words name."""
        words = self.typed.split()
        for count in range(_NAME_WORDS, 0, -1):
            for place in range(len(words) - count + 1):
                name = " ".join(words[place : place + count]).strip(" .,;:?!")
                if re.search(r"[,;:?!] ", name):
                    continue
                if count > 1 and _SIZE.fullmatch(words[place]):  # 70b llama 2
                    name = " ".join((*name.split()[1:], words[place]))
                is_name = count > 1 or any(map(str.isdigit, name)) or models.is_named(name)
                if is_name and (meant := models.find(name)) is not None:
                    end = ("",) if words[place + count - 1][-1].isalnum() else (",",)
                    self.typed = " ".join((*words[:place], *end, *words[place + count :]))
                    joined = name.replace(" ", "-")
                    return joined if models.find(joined) is meant else meant.id
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
        words = [word.strip(".,:;?!¿¡") for word in self.typed.split()]
        return " ".join(word for word in words if word and word not in _words()["joining"]["any"])


_TOKENS_OF_TEXT: Final = {"page": 500 * 4 / 3, "word": 4 / 3}
"""Tokens of a page or a word. Source: OpenAI help center, What are tokens: 100 tokens are about 75 words. Own
assumption: a page has 500 words, as single-spaced ones have."""
_PERIODS_OF_A_BACKLOG: Final = ("day", "week", "month")
"""Periods of recordings that are written down later. Own assumption: live speech is told in streams or per second."""
_BACKLOG_LATENCY: Final = "60s"
_CHAT: Final = "chatbot"
"""Use case whose users chat, whatever else a question names: RAG, code, agents."""
_OF_ITEMS: Final = ("embed", "rerank", "speech", "diffusion")
"""Kinds of work whose items have one latency each."""
_MEMORY_OF_A_CARD: Final = re.compile(
    r"\b\d{1,3}\s?gi?b(?: of)? (?:vram|video memory|gpu memory|unified memory)\b|\bvram:? \d{1,3}\s?gi?b\b"
)
_MEMORY: Final = re.compile(
    r"\bhow much (?:gpu |video |graphics )?(?:v?ram|memory)\b"
    r"|\b(?:v?ram|memory) (?:requirements?|needed|required|usage)\b|\bwie ?viel (?:v?ram|speicher)\b"
)
_WHICH_MODEL: Final = re.compile(
    r"\b(?:which|what)(?: \w+){0,4} (?:models?|llms?)\b|\bwhat (?:can|could|will) (?:(?:i|we|it|they|my)\b )?"
    r"(?:be )?run\b|\bwhat (?:can|could|will)\b(?=[^.?!]{0,40}\brun\b)"
    r"|^\W*(?:(?:best|biggest|code|coding|good|largest|local|open|small|top) )*(?:models?|llms?)"
    rf"(?: (?:for|on)\b|(?= {_MARK}))"
    r"|\bwelches? (?:modelle?|llms?)\b|\bquels? modèles?\b|\bqué modelos?\b|\bquali? modell[oi]\b"
)
_BUYS: Final = re.compile(r"\b(?:buy|buying|purchase|purchasing|kaufen|acheter|comprar|comprare)\b")
_AT_HOME: Final = re.compile(
    r"\b(?:at home|for home|home ?lab|in my (?:basement|closet|garage|room)|zu ?hause|daheim|à la maison|chez moi"
    r"|en casa|a casa)\b"
)
"""Places where a machine that costs a sum is bought."""
_SUM_ALONE: Final = re.compile(
    r"\b(?:budget(?: is| of|:)?|for|under|below|less than|up to|at most|within|unter|bis|moins de|menos de|meno di)\s+"
    r"(?P<budget>(?P<money>\d[\d.,]*\s*k|\d{1,3}[.,]?\d{3}))(?=\s*(?:[,.;?!]|$)|\s+(?:in total|total|and|or)\b)"
)
"""Sum without a currency at the end of a phrase."""
_BOUGHT: Final = re.compile(
    r"\b(?:gpus?|(?:graphics )?cards?|workstations?|pcs?|rigs?|builds?|servers?|macs?)\b.*\b(?:buy|purchase)\b"
)
"""Machines that a question asks to buy without naming a sum."""
_RENTS: Final = r"(?:rent(?:ing)?|cloud)"
_OWNS: Final = r"(?:buy|own|purchase|buying|owning|on-prem\w*)"
_OR: Final = r"[^.?!]*?\b(?:or|vs\.?|versus)\b(?: to)? "
_RENT_OR_BUY: Final = re.compile(
    rf"\b{_RENTS}\b{_OR}{_OWNS}\b|\b{_OWNS}\b{_OR}{_RENTS}\b|\b(?:mieten oder kaufen|kaufen oder mieten"
    r"|louer ou acheter|acheter ou louer|alquilar o comprar|comprar o alquilar)\b"
)
"""Questions whether to rent machines or to buy them."""
_API: Final = re.compile(r"\bapis?\b|\b(?:openrouter|together[ .]?ai|fireworks|deepinfra|openai|anthropic)\b")
_CHOICE: Final = re.compile(
    r"\b(?:cheaper|myself|self[- ]host\w*|versus|vs|instead|günstiger|moins cher)\b|\bor\b.*\bapis?\b"
)
"""Words with which machines of one's own or rented ones are compared with an API."""
_FITS: Final = re.compile(
    r"\b(?:fits?|enough|suffice|sufficient|able to (?:run|load)"
    r"|(?:can|could|will|would|does) (?:[^\s,;?!]+ ){1,9}(?:run|load|handle)"
    r"|passt|passen|reicht|reichen|genügt|suffit|tient|alcanza|cabe|basta|bastano)\b"
)
"""Words of a question whether machines hold a model, where it names no load."""
_SPEED: Final = re.compile(
    r"\bhow (?:fast|many (?:tokens?|toks?|t/s|tps))\b|\b(?:what|which) (?:speed|tokens? per second|tps|t/s|tok/s)\b"
    r"|\bwie schnell\b|\bqué velocidad\b|\bquelle vitesse\b"
)
_MEASURED: Final = re.compile(r"\b(?:i|we) (?:only )?(?:get|see|reach|measure)\b|\b(?:getting|seeing)\b")
_JUDGED: Final = re.compile(r"\b(?:normal|expected|as expected|plausible|too slow|right|ok|okay|good)\b")
"""Words of a question whether a speed that was measured, by the words before it, is the usual one."""
_OF_MEMORY: Final = {
    "--model": "--model",
    "--gpu": "--gpu",
    "--max-context": "--context",
    "--precision": "--precision",
    "--kv-precision": "--kv-precision",
    "--concurrency": "--concurrency",
}
"""Options of `advisor memory` by those of a question."""
_LOADS: Final = frozenset(("--rate", "--users", "--workload", "--budget", "--use-case"))
_NAMES_OF_METRICS: Final = {"e2e": "whole requests", "latency": "the latency of items"}
_LEARNING: Final = ("train", "finetune")
_OF_CLUSTERS: Final = (*_LEARNING, "distill", "rl")
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


def _objective(metric: str, percentile: str | None) -> str:
    """Return the option that limits a metric at a percentile as people write it.

    Raises: AdvisorError: no option limits that statistic.
    """
    digits = re.search(r"\d\d(?:\.\d+)?", percentile or "p99")
    statistic = f"p{digits[0]}" if digits else "p50" if percentile == "median" else "mean"
    fields = (*ObjectiveOptions.__dataclass_fields__, *ItemInput.__dataclass_fields__)
    options = [f"--{name.replace('_', '-')}" for name in fields if name.startswith(f"{metric}_p")]
    if (option := f"--{metric}-{statistic}") in options:
        return option
    raise AdvisorError(
        f"no objective limits the {statistic} of {_NAMES_OF_METRICS.get(metric, metric.upper())}",
        why=f"limits hold at {', '.join(name.rpartition('-')[2] for name in options)}",
        fix=" or ".join(options),
    )


def _accelerator(name: str) -> str | None:
    """Return the accelerator with a name, which may be in the plural; None if the catalog has none."""
    for spelling in (name, name.removesuffix("s")):
        if (record := accelerators.find(spelling)) is not None:
            return record.id
    return None


def _any(table: str, name: str) -> str:
    return _join(_words()[table][name])


def _join(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in _by_length(words))


def _by_length(words: Iterable[str]) -> Iterator[str]:
    """Yield longer words first, so that the whole of a word counts."""
    yield from sorted(words, key=len, reverse=True)

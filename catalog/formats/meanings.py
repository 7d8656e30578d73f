"""Meanings of the names of fields, whichever program wrote them: one vocabulary for figures of serving benchmarks."""

import functools
import re
import unicodedata
from dataclasses import dataclass
from typing import Final, Literal

from advisor.catalog.files import DATA_DIR, read_toml
from advisor.catalog.units import HOUR_S, MICROSECOND_S, MILLISECOND_S, MINUTE_S, NANOSECOND_S

Quantity = Literal[
    "ttft",
    "tpot",
    "itl",
    "e2e",
    "output_tokens_per_s",
    "total_tokens_per_s",
    "input_tokens_per_s",
    "tokens_per_s",
    "requests_per_s",
    "tokens_per_s_and_user",
    "concurrency",
    "batch_size",
    "request_rate_per_s",
    "num_requests",
    "num_failed",
    "input_tokens",
    "output_tokens",
    "total_input_tokens",
    "total_output_tokens",
    "duration",
    "model",
    "gpu",
    "engine",
    "weight_dtype",
    "num_gpus",
    "tensor_parallel",
    "expert_parallel",
    "data_parallel",
    "max_num_seqs",
    "date",
]
Statistic = Literal["mean", "p50", "p99", "other", ""]

TIMES: Final[tuple[Quantity, ...]] = ("ttft", "tpot", "itl", "e2e")
RATES: Final[tuple[Quantity, ...]] = (
    "output_tokens_per_s",
    "total_tokens_per_s",
    "tokens_per_s",
    "requests_per_s",
)
UNITS_S: Final = {
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds", "millis"), MILLISECOND_S),
    **dict.fromkeys(("us", "usec", "µs", "μs", "microsecond", "microseconds", "micros"), MICROSECOND_S),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds", "nanos", "nano"), NANOSECOND_S),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), MINUTE_S),
    **dict.fromkeys(("h", "hr", "hour", "hours"), HOUR_S),
}
"""Seconds of a unit of time as titles and cells write it."""
_TOKENS: Final = r"(?:tok(?:en)?s?|tps|t)"
_IN: Final = r"(?:input|prompt|in|isl|prefill|context)"
_OUT: Final = r"(?:output|out|generat\w+|completion|decod\w+|gen|new|response|osl)"
_PER_S: Final = r"per (?:s|secs?|seconds?|mins?|minutes?|hours?)\b"
_BOTH: Final = rf"\b{_IN}\b.*\b(?:output|completion|generat\w+|decode)\b"
_USER: Final = r"(?:user|request|client|stream)"
_REQUESTS: Final = r"(?:req(?:uest)?s?|queries|samples|seqs?|sequences|prompts|infer(?:ences?)?)"
_GPUS: Final = r"(?:gpus?|accelerators?|devices?|cards)"
_VOCABULARY: Final[tuple[tuple[Quantity, tuple[str, ...]], ...]] = (
    (
        "tokens_per_s_and_user",
        (
            rf"{_TOKENS} {_PER_S}.*\b{_USER}\b",
            rf"\b{_USER} {_TOKENS} {_PER_S}",
            r"interactivity",
            rf"per {_USER} (?:output )?(?:throughput|speed|tps)",
            rf"(?:throughput|tps) per {_USER}",
            rf"\b{_USER} (?:output )?throughput.*\b{_TOKENS}\b",
        ),
    ),
    (
        "ttft",
        (
            r"\bttft\b",
            r"(?:first|1st) (?:output )?token",
            r"\bttfb\b",
            r"first byte",
            r"prefill (?:latency|time)",
            r"\bt_pp\b",
        ),
    ),
    ("itl", (r"\bitl\b", "inter token", "between tokens", r"\btbt\b", "token to token")),
    (
        "tpot",
        (
            r"\btpot\b",
            rf"per (?:output |generated |decode )?tok(?:en)?\b(?! {_PER_S})",
            r"(?:decode|token) (?:latency|time|token)(?! throughput)",
            "decode step",
        ),
    ),
    ("num_failed", (r"\bfail\w*", r"\bnon 2xx\b", r"\berrors?\b", "error count", "unsuccessful")),
    ("total_tokens_per_s", (rf"{_BOTH}.*(?:{_TOKENS} {_PER_S}|throughput|tps)", rf"throughput.*{_BOTH}")),
    (
        "input_tokens_per_s",
        (
            rf"\b{_IN}\b.*{_TOKENS} {_PER_S}",
            rf"\b{_IN}\b.*(?:throughput|tps)\b",
            rf"throughput.*\b{_IN}\b",
            rf"\b{_TOKENS} {_PER_S} {_IN}\b",
        ),
    ),
    (
        "output_tokens_per_s",
        (
            rf"\b{_OUT}\b.*\b{_TOKENS} {_PER_S}",
            rf"\b{_OUT}\b.*(?:throughput|tps|speed)\b",
            rf"(?:throughput|tps)\b.*\b{_OUT}\b",
            rf"\b{_TOKENS} {_PER_S}.*\b{_OUT}\b",
        ),
    ),
    (
        "total_tokens_per_s",
        (
            rf"\b(?:total|overall|combined|all)\b.*\b{_TOKENS} {_PER_S}",
            r"\b(?:total|overall|combined)\b.*\b(?:throughput|tps)\b(?!.*\breq)",
            r"(?:throughput|tps)\b.*\btotal\b(?!.*\breq)",
            rf"\b{_TOKENS} {_PER_S} (?:total|overall|combined|all)\b",
        ),
    ),
    (
        "request_rate_per_s",
        (
            r"(?:request(?:ed)?|issue|arrival|target|offered|send\w*|query|load|injection) (?:rate|load|qps|rps)",
        ),
    ),
    (
        "requests_per_s",
        (
            rf"{_REQUESTS} {_PER_S}",
            r"^(?!num\b|number\b).*\b(?:rps|qps|req s)\b",
            "request throughput",
            r"throughput.*\breq",
        ),
    ),
    ("tokens_per_s", (rf"\b{_TOKENS} {_PER_S}", r"\btps\b", r"\bthroughput\b")),
    (
        "total_input_tokens",
        (
            rf"\btotal\b.*\b{_IN}\b.*\b{_TOKENS}",
            "total (?:input|prompt)s? len",
            rf"\b{_IN}\b {_TOKENS} total",
        ),
    ),
    (
        "total_output_tokens",
        (rf"\btotal\b.*\b{_OUT}\b.*\b{_TOKENS}", "total output len", rf"\b{_OUT}\b {_TOKENS} total"),
    ),
    (
        "e2e",
        (
            r"\be2el?\b",
            "end to end",
            "(?:request|resp?(?:onse)?|res|total|overall|query|turnaround) (?:latency|time|duration)",
            "time per (?:request|query)",
            "served within",
            r"\blatency\b",
        ),
    ),
    ("max_num_seqs", ("max num seqs", r"max running req\w*", "max (?:runtime )?batch size")),
    (
        "concurrency",
        (
            r"\bconc(?:ur(?:ren\w*)?)?\b",
            r"\b(?:clients?|users|vus|workers|streams|threads|simultaneous\w*)\b",
            r"parallel(?:ism)? requests|\bparallel$",
            r"in ?flight",
            "^(?:c|user|client|session|stream)$",
        ),
    ),
    ("batch_size", (r"batch(?: size)?$|\bbs\b",)),
    (
        "duration",
        (r"\bduration\b|elapsed|wall (?:time|clock)|benchmark time|run time|time taken|total time",),
    ),
    (
        "output_tokens",
        (
            r"\bosl\b",
            rf"\b{_OUT}\b.*(?:\b{_TOKENS}|len\w*|size)\b",
            rf"max (?:new |output |completion )?{_TOKENS}",
            "^(?:outputs?|completions?|out)$",
            r"^tok\w* (?:out|generated)$",
        ),
    ),
    (
        "input_tokens",
        (
            r"\bisl\b",
            rf"\b{_IN}\b.*(?:\b{_TOKENS}|len\w*|size)\b",
            "sequence length",
            "prompt size",
            "^(?:inputs?|prompts?|in)$",
            r"^tok\w* in$",
        ),
    ),
    (
        "request_rate_per_s",
        (r"(?<!transfer )(?<!hit )(?<!miss )(?<!acceptance )(?<!success )(?<!error )\brate$", r"\bload$"),
    ),
    (
        "num_requests",
        (
            r"(?:num(?:ber)?|completed?|successful|succeeded|total|count|ok|finished|sent|of)\b.*"
            r"\b(?:req(?:uest)?s?|prompts|samples|queries)\b",
            r"\b(?:req(?:uest)?s?|prompts?|samples?|queries) (?:count|completed|sent|succeeded|ok)",
            "^(?:requests|completed|success(?:es|ful)?|succeeded|n requests|n)$",
        ),
    ),
    ("tensor_parallel", (r"\btp(?: size| degree)?$", r"tensor parallel\w*")),
    ("expert_parallel", (r"\bep(?: size| degree)?$", r"expert parallel\w*")),
    ("data_parallel", (r"\bdp(?: size| degree)?$", r"data parallel\w*")),
    (
        "num_gpus",
        (rf"(?:num(?:ber)?|n|of|count)\b.*\b{_GPUS}\b", "^gpus$", rf"\b{_GPUS} count", "world size"),
    ),
    (
        "gpu",
        (r"^sku$|\b(?:gpu|accelerator|hardware|hw|device|card|chip)(?: (?:name|type|model|sku|product))?$",),
    ),
    ("model", (r"\bmodel\b(?! (?:size|load|params))", r"\bmodel (?:id|name|path)\b", "^llm$")),
    ("engine", (r"\b(?:engine|backend|framework|server|runtime|serving)(?: (?:name|type))?$",)),
    (
        "weight_dtype",
        (r"^(?!.*\b(?:kv|cache|activation)\b).*\b(?:precision|dtype|quant\w*|weight format)\b",),
    ),
    ("date", (r"\b(?:date|timestamp|time|day)$",)),
)
"""Patterns of names in plain words by what they mean; the first that is found counts, so the longest phrases stand
first."""
_MEANS: Final = r"\b(?:mean|avg|average)\b"
_MEDIANS: Final = r"\b(?:median|med|p50|50th|p 50|50 0|percentiles? 50|p50 0|50 percent\w*|50p)\b"
_NINETY_NINTH: Final = r"\b(?:p99|99th|p 99|percentiles? 99|p99 0|99 percent\w*|99p)\b"
_OTHER: Final = (
    r"\b(?:std\w*|stdev|deviation|variance|min(?:imum)?|max(?:imum)?|lowest|highest|worst|best|p\d{1,2}(?: \d)?"
    r"|\d{1,2}th|p 9 ?\d|percentiles? \d+|slo|goodput|limit|target|threshold|cv|ci|peak|count|histogram)\b"
)
_STATISTICS: Final[tuple[tuple[Statistic, str], ...]] = (
    ("other", r"\bp99 9\d*\b|\bp999\b|\b99 9\d*\b"),
    ("p99", _NINETY_NINTH),
    ("p50", _MEDIANS),
    ("other", _OTHER),
    ("mean", _MEANS),
)
_LONGEST_NAME: Final = 160
"""Characters of a name that are read: time of the patterns grows with its square."""
_PER_GPU: Final = re.compile(r"\bper (?:gpu|accelerator|device|chip)\b")


@dataclass(frozen=True, slots=True)
class Meaning:
    """Quantity, statistic and unit that a name states."""

    quantity: Quantity
    statistic: Statistic = ""
    """Empty if the name states none."""
    unit: str = ""
    """Word of the unit in the name; empty if it states none."""
    per_gpu: bool = False
    is_phase: bool = False
    """Whether the name is that of the prefill alone: only a cell that states a time is the time to first token."""


def plain_words(name: str) -> str:
    """Return a name in lower-case English words: `outputTokensPerSecond` is `output tokens per second`,
    `Preis pro Monat` is `price per month`."""
    text = re.sub(
        r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})|(?<=\d)(?=[A-Z][a-z])", " ", name[:_LONGEST_NAME]
    )
    text = text.replace("%", " percent ").replace("#/", "requests/").lower().replace("μ", "µ")
    text = re.sub(r"\btput\b", "throughput", text.replace("_", " "))
    text = re.sub(r"(?<=\w)\s*/\s*(?=\w)", " per ", text)
    words = re.findall(r"[a-z0-9µ]+", text if text.isascii() else _without_accents(text))
    words = [_title_words().get(word, word) for word in words]
    return re.sub(r"\b(tok(?:en)?s?|req(?:uest)?s?|t) (?:s|sec|second)\b", r"\1 per s", " ".join(words))


@functools.cache
def _title_words() -> dict[str, str]:
    """Return the words of titles in other languages by what they mean in English."""
    tables = read_toml(DATA_DIR / "title_words.toml")
    return {word: meaning for words in tables.values() for word, meaning in words.items()}


def _without_accents(text: str) -> str:
    """Return a text without accents, its words in other scripts in English."""
    foreign = (word for word in _title_words() if not word.isascii())
    for word in sorted(foreign, key=len, reverse=True):
        text = text.replace(word, f" {_title_words()[word]} ")
    apart = unicodedata.normalize("NFKD", text.replace("µ", "\0").replace("ß", "ss"))
    return "".join(sign for sign in apart if not unicodedata.combining(sign)).replace("\0", "µ")


def contradicts_itself(name: str) -> bool:
    """Whether a name says that tokens are counted and has requests in its unit."""
    words = plain_words(name)
    return bool(
        re.search(rf"\b{_TOKENS}\b(?! {_PER_S})", words) and re.search(rf"\b{_REQUESTS} {_PER_S}", words)
    )


def meaning_of(name: str) -> Meaning | None:
    """Return the meaning of the name of a field, with the names above it; None for a name without one."""
    words = plain_words(name)
    own = plain_words(name.rpartition(".")[2]) if "." in name else words
    if own.isdigit():  # the key of a percentile, {"percentiles": {"50": 1}}
        own = plain_words(" ".join(name.split(".")[-2:]))
    is_phase = _is_statistic(re.sub(r"\bprefill\b", "", words)) and "prefill" in words
    for quantity, patterns in _VOCABULARY:
        if is_phase or any(re.search(pattern, own) for pattern in patterns):
            quantity = "ttft" if is_phase else quantity
            break
    else:
        if not _is_statistic(own):
            return None
        for quantity, patterns in _VOCABULARY:
            if quantity in _NESTED and any(re.search(pattern, words) for pattern in patterns):
                break
        else:
            return None
    statistic: Statistic = ""
    if quantity in _SPREAD:
        named = re.sub(r"\bper \w+", "", words)
        statistic = next((each for each, form in _STATISTICS if re.search(form, named)), "")
    unit = ""
    if quantity in TIMES or quantity == "duration":
        apart = re.sub(r"\bper (?:output )?tok\w*", "", words)
        unit = next((word for word in reversed(apart.split()) if word in UNITS_S and word not in "mh"), "")
    elif quantity in (*RATES, "input_tokens_per_s") and (
        found := re.search(r"per (min\w*|hours?|h)\b", words)
    ):
        unit = found[1]
    if re.match(r"max (?:\w+ )?tok", own):  # a setting that bounds the output, which benchmarks then reach
        statistic = ""
    return Meaning(quantity, statistic, unit, bool(_PER_GPU.search(words)), is_phase)


_SPREAD: Final = (
    *TIMES,
    *RATES,
    "tokens_per_s_and_user",
    "input_tokens",
    "output_tokens",
    "input_tokens_per_s",
)
_NESTED: Final = (*_SPREAD, "concurrency", "num_requests")
"""Quantities whose fields may be statistics alone, below the quantity's name."""


def _is_statistic(words: str) -> bool:
    """Whether the words of a name are a statistic, perhaps with a unit, and nothing else."""
    rest = words
    for _, pattern in _STATISTICS:
        rest = re.sub(pattern, "", rest)
    left = [
        word
        for word in rest.split()
        if word not in UNITS_S and word not in ("value", "quantiles", "percentiles", "unit")
    ]
    return not left

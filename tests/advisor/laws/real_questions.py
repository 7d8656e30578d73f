"""Generated pairs of questions about the real catalog: a wider one, and the same one with a limit more.

Every pair is about one kind of limit: accelerators, engines, formats, providers, regions, own boards, power, latencies,
load, levers, prices, and what batches, models of items and training runs may use.
"""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

NUM_PAIRS: Final = 104
"""Pairs that are asked when all are: four of each kind."""
DENSE: Final = (
    ("8b", (0.5, 40.0)),
    ("qwen2.5-7b", (0.5, 40.0)),
    ("qwen3-32b", (0.3, 12.0)),
    ("70b", (0.2, 30.0)),
)
EXPERTS: Final = (("qwen3-30b-a3b", (0.5, 40.0)), ("gpt-oss-20b", (0.5, 40.0)), ("gpt-oss-120b", (0.3, 20.0)))
SMALL_CARDS: Final = ("l4", "l40s", "rtx-4090", "a100-sxm-80gb", "h100-sxm", "gh200-96gb", "mi300x")
LARGE_CARDS: Final = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm", "b300-sxm", "mi300x", "gh200-96gb")
LARGE: Final = ("70b", "qwen3-32b", "gpt-oss-120b")
PROFILES: Final = ("", "", "--profile rag", "--profile code", "--profile agent", "--profile chat")


@dataclass(frozen=True)
class Pair:
    """A wider question, and the limit that makes it narrower."""

    wide: str
    narrow: str
    limit: str
    """Name of the limit."""


@dataclass(frozen=True)
class _Base:
    """A question about serving of which one part is varied."""

    dice: random.Random
    model: str
    rate: float
    cards: tuple[str, ...]
    profile: str

    def words(self, **parts: str) -> str:
        """The question with parts in place of its own; an empty part is left out."""
        whole = {
            "model": self.model,
            "rate": f"{self.rate:g}",
            "gpu": ",".join(self.cards),
            "engine": "vllm",
            "levers": "none",
        } | parts
        named = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in whole.items() if value)
        return f"recommend {named} {self.profile} --top 20".replace("  ", " ")


def _base(dice: random.Random) -> _Base:
    model, (least, most) = dice.choice((*DENSE, *EXPERTS))
    rate = float(f"{least * (most / least) ** dice.random():.3g}")
    kinds = LARGE_CARDS if model in LARGE else SMALL_CARDS
    return _Base(dice, model, rate, tuple(dice.sample(kinds, 2)), dice.choice(PROFILES))


def _accelerators(base: _Base) -> tuple[str, str]:
    return base.words(), base.words(gpu=base.cards[0])


def _engines(base: _Base) -> tuple[str, str]:
    one = base.dice.choice(("vllm", "sglang"))
    return base.words(engine="vllm,sglang,trt-llm"), base.words(engine=one)


def _every_engine(base: _Base) -> tuple[str, str]:
    card = base.cards[0]
    return base.words(engine="", gpu=card), base.words(engine="vllm", gpu=card)


def _formats(base: _Base) -> tuple[str, str]:
    one = base.dice.choice(("bf16", "fp8"))
    return base.words(), base.words(precision=one)


def _four_bits(base: _Base) -> tuple[str, str]:
    return base.words(precision="bf16,fp8,w4a16"), base.words(precision="bf16,fp8")


def _providers(base: _Base) -> tuple[str, str]:
    one = base.dice.choice(("aws", "gcp", "lambda", "runpod", "azure"))
    return base.words(), base.words(provider=one)


def _two_providers(base: _Base) -> tuple[str, str]:
    first, second = base.dice.sample(("aws", "gcp", "lambda", "runpod", "azure"), 2)
    return base.words(provider=f"{first},{second}"), base.words(provider=first)


def _regions(base: _Base) -> tuple[str, str]:
    limit = base.dice.choice(("region", "residency"))
    return base.words(), base.words(**{limit: "us" if limit == "region" else base.dice.choice(("us", "eu"))})


def _ages(base: _Base) -> tuple[str, str]:
    return base.words(), base.words(max_price_age=str(base.dice.choice((10, 30, 90))))


def _terms(base: _Base) -> tuple[str, str]:
    return base.words(term="on-demand,spot"), base.words(term="on-demand")


def _tenancies(base: _Base) -> tuple[str, str]:
    return base.words(tenancy="dedicated,shared,unknown"), base.words(tenancy="dedicated")


def _most_accelerators(base: _Base) -> tuple[str, str]:
    return base.words(), base.words(max_gpus=str(base.dice.choice((1, 2, 4, 8))))


def _own(base: _Base) -> str:
    return base.dice.choice(
        ("h100-sxm", "a100-sxm-80gb", "h200-sxm") if base.model in LARGE else SMALL_CARDS[:5]
    )


def _more_own_boards(base: _Base) -> tuple[str, str]:
    card = _own(base)
    rate = f"{0.3 * base.rate:.3g}"
    more, less = (base.words(gpu="", own=f"{count}x{card}", rate=rate) for count in (8, 4))
    return more, less


def _own_boards_of_two_kinds(base: _Base) -> tuple[str, str]:
    first, second = base.dice.sample(("h100-sxm", "a100-sxm-80gb", "h200-sxm", "l40s"), 2)
    rate = f"{0.3 * base.rate:.3g}"
    return (
        base.words(gpu="", own=f"4x{first},4x{second}", rate=rate),
        base.words(gpu="", own=f"4x{first}", rate=rate),
    )


def _power(base: _Base) -> tuple[str, str]:
    card = _own(base)
    rate = f"{0.3 * base.rate:.3g}"
    watts = base.dice.choice(("1.5kW", "3kW", "5kW"))
    free = base.words(gpu="", own=f"8x{card}", rate=rate)
    return free, f"{free} --power-budget {watts}"


def _more_power(base: _Base) -> tuple[str, str]:
    card = _own(base)
    free = base.words(gpu="", own=f"8x{card}", rate=f"{0.3 * base.rate:.3g}")
    return f"{free} --power-budget 5kW", f"{free} --power-budget 2.5kW"


def _objectives(base: _Base) -> tuple[str, str]:
    name, tight, loose = base.dice.choice(
        (
            ("tpot-p99", "25ms", "37.5ms"),
            ("tpot-p99", "40ms", "60ms"),
            ("ttft-p99", "700ms", "1.4s"),
            ("itl-p99", "30ms", "60ms"),
            ("e2e-p99", "8s", "16s"),
            ("ttft-p50", "150ms", "300ms"),
            ("tpot-p95", "30ms", "45ms"),
        )
    )
    free = base.words()
    return f"{free} --{name} {loose}", f"{free} --{name} {tight}"


def _objectives_with_levers(base: _Base) -> tuple[str, str]:
    free = base.words(levers="auto", gpu=base.cards[0])
    name, tight, loose = base.dice.choice((("tpot-p99", "25ms", "37.5ms"), ("ttft-p99", "800ms", "2s")))
    return f"{free} --{name} {loose}", f"{free} --{name} {tight}"


def _headroom(base: _Base) -> tuple[str, str]:
    return base.words(headroom="0.1"), base.words(headroom="0.35")


def _load(base: _Base) -> tuple[str, str]:
    return base.words(), base.words(rate=f"{base.rate * base.dice.uniform(1.05, 1.8):.3g}")


def _clients(base: _Base) -> tuple[str, str]:
    clients = max(1, round(8.0 * base.rate))
    few, many = (base.words(rate="", concurrency=str(count)) for count in (clients, math.ceil(1.5 * clients)))
    return few, many


def _levers(base: _Base) -> tuple[str, str]:
    one = base.dice.choice(("kv-fp8", "pools", "split", "eagle", "auto"))
    card = base.cards[0]
    return base.words(levers=one, gpu=card), base.words(gpu=card)


def _spare(base: _Base) -> tuple[str, str]:
    return base.words(), base.words(redundancy="n+1")


def _batch(base: _Base) -> tuple[str, str]:
    items = base.dice.choice(("5k", "50k"))
    free = f"recommend --workload batch --model {base.model} --items {items} --gpu {','.join(base.cards)} --engine vllm"
    tight, loose = base.dice.choice((("2h", "6h"), ("6h", "24h")))
    return f"{free} --deadline {loose} --top 20", f"{free} --deadline {tight} --top 20"


def _items(base: _Base) -> tuple[str, str]:
    free = base.dice.choice(
        (
            "recommend --workload embed --model bge-m3 --rate 80 --gpu l4,l40s,h100",
            "recommend --workload diffusion --model flux.1-dev --rate 0.2 --latency-p99 20s --gpu l40s,h100",
            "recommend --workload speech --model whisper-large-v3 --rate 4 --latency-p99 5s --gpu l4,l40s,h100",
            "recommend --workload vision --model qwen3-vl-8b --rate 3 --gpu l40s,h100 --engine vllm",
        )
    )
    limit = base.dice.choice(("--provider aws", "--headroom 0.5", "--max-price-age 30", "--region us"))
    return f"{free} --top 20", f"{free} {limit} --top 20"


def _training(base: _Base) -> tuple[str, str]:
    free = "recommend --workload train --model 1b --tokens 5B --gpu h100,a100,b200"
    limit = base.dice.choice(
        ("--gpus 8", "--deadline 2d", "--provider aws", "--term on-demand", "--max-price-age 60")
    )
    return f"{free} --top 20", f"{free} {limit} --top 20"


KINDS: Final[tuple[tuple[str, Callable[[_Base], tuple[str, str]]], ...]] = (
    ("accelerators", _accelerators),
    ("engines", _engines),
    ("every engine", _every_engine),
    ("formats", _formats),
    ("four bits", _four_bits),
    ("providers", _providers),
    ("two providers", _two_providers),
    ("regions", _regions),
    ("ages of prices", _ages),
    ("terms", _terms),
    ("tenancies", _tenancies),
    ("most accelerators", _most_accelerators),
    ("own boards", _more_own_boards),
    ("own boards of two kinds", _own_boards_of_two_kinds),
    ("power", _power),
    ("more power", _more_power),
    ("objectives", _objectives),
    ("objectives with levers", _objectives_with_levers),
    ("headroom", _headroom),
    ("load", _load),
    ("clients", _clients),
    ("levers", _levers),
    ("spare", _spare),
    ("batch", _batch),
    ("items", _items),
    ("training", _training),
)


def pairs(count: int = NUM_PAIRS) -> Iterator[Pair]:
    """Yield pairs, each kind in turn: the same ones in every run."""
    for place in range(count):
        name, make = KINDS[place % len(KINDS)]
        base = _base(random.Random(f"pair {place}"))
        yield Pair(*make(base), name)


QUICK_PAIRS: Final = [
    pair for place, pair in enumerate(pairs(len(KINDS))) if place % 4 == 0 and pair.limit != "objectives"
]
"""Pairs that the suite asks: the first of every fourth kind. Objectives are those of five written pairs."""

"""Generated questions over small markets: a price file of a few rows, a model, a load, and what is allowed.

Prices of a card lie within 0.7 to 1.4 times a usual one, so that no row is refused as absurd.
"""

import hashlib
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

QUESTIONS: Final = int(os.environ.get("ADVISOR_QUESTIONS", "0"))
"""Generated questions that each law is asked about, besides `QUICK`; the suite asks none."""
IS_THOROUGH: Final = QUESTIONS > 0
"""Whether tests ask everything that they know, and not a part that fits a suite."""

USUAL_USD: Final = {
    "l4": 0.7,
    "l40s": 0.95,
    "rtx-4090": 0.5,
    "a100-sxm-80gb": 1.6,
    "h100-sxm": 2.5,
    "h200-sxm": 3.3,
    "b200-sxm": 4.8,
    "mi300x": 2.4,
}
"""Usual price of one accelerator [USD/h]."""
PROVIDERS: Final = ("acme", "bolt", "crest")
DAYS: Final = ("2026-11-17", "2026-10-30", "2026-08-02", "2026-02-10")
"""Ages of the prices: 3, 21, 110 and 283 days before the day of the questions."""
REGIONS: Final = (("us", "US"), ("germany", "DE"), ("france", "FR"))
HEADER: Final = (
    "provider,sku,region,country,accelerator,num_accelerators,term,usd_per_hour,observed_on,price_kind,"
    "min_quantity,max_quantity,storage_usd_per_gb_hour,egress_usd_per_gb"
)
SMALL: Final = ("8b", "qwen3-30b-a3b")
LARGE: Final = ("70b", "gpt-oss-120b")
TOO_SMALL: Final = ("l4", "l40s", "rtx-4090", "a100-sxm-80gb")
"""Accelerators of which large models take whole machines, slowly."""
GENERATED: Final[list[Callable[..., None]]] = []
"""Tests of laws that take a generated question, in the order in which they are defined."""
_FOLDER: Final = TemporaryDirectory(prefix="advisor-laws-")


@dataclass(frozen=True)
class Row:
    """One row of a price file."""

    provider: str
    accelerator: str
    num_accelerators: int
    usd_per_hour: float
    observed_on: str = DAYS[0]
    kind: str = "list"
    region: int = 0
    term: str = "on_demand"
    more: tuple[str, str, str, str] = ("", "", "", "")
    """Least and largest order [accelerators], price of storage [USD/GB/h] and of egress [USD/GB]; empty for none."""

    def write_csv(self) -> str:
        sku = f"{self.accelerator}-x{self.num_accelerators}-{self.observed_on[2:7]}-{self.term}"
        place = ",".join(REGIONS[self.region])
        return (
            f"{self.provider},{sku},{place},{self.accelerator},{self.num_accelerators},{self.term},"
            f"{self.usd_per_hour:.4g},{self.observed_on},{self.kind},{','.join(self.more)}"
        )


@dataclass(frozen=True)
class Question:
    """Question about a market."""

    rows: tuple[Row, ...]
    model: str
    rate_per_s: float
    accelerators: tuple[str, ...]
    more: str = ""
    narrower: str = ""
    """An option that allows less, or asks for more."""
    factor: float = 1.0
    """Budget of a law about budgets, as a multiple of the bill that a question without it finds."""
    place: int = 0
    """Which of the rows a law about offers takes away."""

    def words(self, command: str = "recommend", *, load: str | None = None) -> str:
        """Words of the question, with the whole list shown."""
        rate = f"--rate {self.rate_per_s:g}" if load is None else load
        return (
            f"{command} --model {self.model} {rate} --gpu {','.join(self.accelerators)} --top 20 "
            f"--provider {','.join(self.providers)} --price-file {price_file(self.rows)} --levers none {self.more}"
        ).rstrip()

    @property
    def providers(self) -> list[str]:
        return sorted({row.provider for row in self.rows})

    def with_rows(self, *rows: Row) -> "Question":
        return replace(self, rows=rows)


def price_file(rows: tuple[Row, ...]) -> str:
    """Path of a file with these rows, quoted for a command line; rows of one offer stand in it once."""
    texts = {tuple(row.write_csv().split(",")[:7]): row.write_csv() for row in rows}
    content = "\n".join((HEADER, *texts.values())) + "\n"
    path = Path(_FOLDER.name) / f"{hashlib.sha256(content.encode()).hexdigest()[:12]}.csv"
    if not path.exists():
        path.write_text(content, encoding="utf-8")
    return shlex.quote(str(path))


@st.composite
def rows_of(draw: st.DrawFn, accelerator: str) -> tuple[Row, ...]:
    """One to three offers of an accelerator."""

    def row(provider: str) -> Row:
        size = draw(st.sampled_from((1, 2, 4, 8)))
        factor = draw(st.integers(14, 28)) / 20.0
        return Row(
            provider,
            accelerator,
            size,
            round(USUAL_USD[accelerator] * factor * size, 2),
            draw(st.sampled_from(DAYS)),
            draw(st.sampled_from(("list", "quote", "tracker"))),
            draw(st.integers(0, len(REGIONS) - 1)),
        )

    sellers = draw(st.lists(st.sampled_from(PROVIDERS), min_size=1, max_size=3))
    return tuple(row(provider) for provider in sellers)


NARROWER: Final = (
    "--precision fp8",
    "--precision bf16",
    "--max-gpus 1",
    "--max-gpus 2",
    "--region us",
    "--residency eu",
    "--max-price-age 60",
    "--ttft-p99 1s",
    "--tpot-p99 50ms",
    "--ttft-p50 200ms",
    "--tpot-p95 60ms",
    "--itl-p99 60ms",
    "--e2e-p99 15s",
    "--headroom 0.4",
    "--redundancy n+1",
    "--max-context 32k",
)
"""Limits, any of which can only make an answer cost more."""


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """A model at a rate that one to about twenty accelerators carry, and a market of two or three accelerators."""
    model = draw(st.sampled_from((*SMALL, *LARGE)))
    kinds = [name for name in USUAL_USD if model in SMALL or name not in TOO_SMALL]
    accelerators = tuple(draw(st.lists(st.sampled_from(kinds), min_size=2, max_size=3, unique=True)))
    decades = (-7, 12) if model in SMALL else (-7, 6)
    rate = float(f"{10.0 ** (draw(st.integers(*decades)) / 10.0):.2g}")
    rows = tuple(row for each in accelerators for row in draw(rows_of(each)))
    engines = draw(st.sampled_from(("vllm", "vllm", "vllm,sglang", "trt-llm")))
    limits = [
        *NARROWER,
        f"--rate {1.4 * rate:.3g}",
        f"--gpu {accelerators[0]}",
        f"--engine {engines.split(',')[0]}",
        f"--provider {draw(st.sampled_from(rows)).provider}",
    ]
    return Question(
        rows,
        model,
        rate,
        accelerators,
        f"--engine {engines}",
        draw(st.sampled_from(limits)),
        draw(st.integers(17, 40)) / 20.0,
        draw(st.integers(0, len(rows) - 1)),
    )


QUICK: Final = Question(
    (
        Row("acme", "l40s", 1, 0.95),
        Row("bolt", "l40s", 8, 5.6, DAYS[2]),
        Row("acme", "rtx-4090", 2, 1.0, DAYS[1], "tracker"),
    ),
    "8b",
    5.0,
    ("l40s", "rtx-4090"),
    "--engine vllm --precision fp8",
    "--headroom 0.4",
    1.2,
    1,
)
"""A question that every law is asked about, in well below a second."""


def examples(count: int) -> list[Question]:
    """Return generated questions, the same in every run and the same for each law.

    Each has a seed of its own: the examples of one run of hypothesis are often near copies of each other.
    """
    return [_example(number) for number in range(count)]


def _example(number: int) -> Question:
    """The second question of a run of hypothesis; the first is the simplest one in every run."""
    drawn = list[Question]()

    @seed(number)
    @settings(
        max_examples=2,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=tuple(HealthCheck),
    )
    @given(questions())
    def collect(question: Question) -> None:
        drawn.append(question)

    collect()
    return drawn[-1]


def generate_questions(test: Callable[..., None]) -> Callable[..., None]:
    """Hand a test of one law `QUICK` and generated questions."""
    asked = [QUICK, *examples(QUESTIONS)]
    GENERATED.append(test)
    marked: Callable[..., None] = pytest.mark.parametrize("question", asked, ids=map(str, range(len(asked))))(
        test
    )
    return marked

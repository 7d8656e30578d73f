"""Error of first tokens by place, and the spread of runs that rows do not tell apart: a section of
docs/accuracy.md."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from advisor.commands.validate.serving_accuracy_view import SCORE_HEADS, score_cells
from advisor.evidence.scores import JudgedRow, MeasuredPrediction, comparisons, measured_value, score
from advisor.evidence.serving.accuracy import is_core
from advisor.evidence.serving.case import INPUT_COLUMNS
from advisor.evidence.serving.prediction import predict_row

METRIC = "ttft_ms_mean"
ALONE = {"load": "batch1", "concurrency": "1", "num_requests": "", "request_rate": ""}
"""Cells that make a row one client, whose first token waits for no other request."""
IDLE_UP_TO = 1.5
"""Ratio of the predicted first token to that of one client up to which a server counts as idle."""
LOADED_UP_TO = 5.0
"""Ratio up to which a server counts as loaded; beyond it most of the first token is a queue."""
PROMPTS = (512, 2048, 8192)
"""Prompt lengths at which rows are divided [tokens]."""
FEW_CLIENTS = 4
"""Most clients of a run whose first tokens hardly depend on the length of outputs."""
UNTOLD = tuple(name for name in INPUT_COLUMNS if name not in ("case_id", "date"))
"""Columns in which two runs agree that rows do not tell apart."""
FIRST_TOKENS_HEADER = """
## First tokens

Core rows, mean TTFT, by what a request waits for. *Idle*, *loaded* and *queue*: predicted up to 1.5 times, up to 5
times and more than 5 times that of the same server with one client. A closed loop starts with a burst of all its
clients, whose requests wait for each other; how much that burst weighs depends on the number of requests, which not all
rows state.

"""
REPEATS_HEADER = """
How far two runs of one source differ whose rows state the same, or differ only in the length of outputs with at most
four clients, which hardly moves a first token. No prediction from such rows is nearer to both than half of that:

"""
FIRST_TOKENS_END = """
What is known of the remaining error:

- **A row does not say it.** Runs of equal rows (B2) differ by flags, warm-up and the draw of prompts. SGLang's cookbook
  measured one set of prompts twice: in 14 pairs runs with outputs of 500 tokens err by -33 % in the median, those with
  4,000 by +7, as kernels and prefixes kept from the first would have it. Of NVIDIA's internal runs (A2) no row states
  the client. With `script` stated, 26 runs of Llama-3.1-8B under SGLang with up to 256 clients are off by 14 % instead
  of 253 %.
- **A slot fewer than clients.** 177 runs of Llama-3.1-8B under TensorRT-LLM 1.0.0rc3 (A2) are off by 44 %, and by 11 %
  if one of the clients always waits for a slot (6 and 5 % with 8 and 16 clients). With the same release 127 runs of
  Qwen3-235B do not wait (18 % would become 56), nor do those of gpt-oss-120b in InferenceX (8 and 618), and no column
  tells them apart. Without the 177 the core's median is two points lower.
- **The number of requests.** Where a closed loop states none, 5, 10, 20 and 40 requests per client are off by 43, 34,
  40 and 46 %: of one archive (A2) Qwen3-235B asks for 20 under TensorRT-LLM and for 10 under vLLM, Llama-3.1-8B for 40.
- **No common factor.** With all first tokens 6 % later the core is off by 19.2 instead of 19.6 %, blind round 1 by 15.8
  instead of 13.2; with all 6 ms later by 19.4 and 14.8. The rest is spread between groups.
- **The client or the text process.** 20 runs of SGLang with more than 256 clients (A2, `script` stated) are off by
  63 %, by 37 % if a token takes 45 µs to deliver and not 25. No other source sends as many tokens, so 25 is kept.
- **The engine.** SGLang's first tokens come later than predicted in three sources, most behind long prompts of
  recurrent models. TensorRT-LLM's of gpt-oss-120b on B200s take 41 ms with one, two, four and eight ranks, and are
  predicted 10 to 15 % earlier. By their 99th percentiles, the first burst of a new server waited 68 to 98 s in
  DeepSeek-R1's runs of 2025 under SGLang on B200s, and 1 to 6 s in those under TensorRT-LLM and on MI300X and MI355X. A
  tenth of that is in their means, and nothing in the predicted ones. On MI355X two errors cancel in the means: since
  0.5.9 medians of 94 to 122 ms for 1,024 tokens are predicted as 191 to 253.

Tried and not taken: the median of up to 16 draws of a closed loop's lengths (21.6 to 21.0 % in the core, 12.0 to 11.9 %
in blind round 1); outputs of conversations from an exponential distribution, or of at most 1,000 tokens (throughput of
44 open loops on R9700s 7.8 to 4.5 and 5.6 %, but of 93 runs of GPUStack 17 and 21 % to 19 and 26, and to 24 and 34).
vLLM's tokenizer for TensorRT-LLM too, 2.5 µs a token: gpt-oss-120b on B200s, which led to it, 13.8 to 7.2 %, but on
H200s 7.9 to 10.5, Llama-3.1-70B on B200s 8.1 to 11.3, NIM's 7.3 to 9.4.
"""


def first_token_tables(rows: Sequence[JudgedRow], everything: Sequence[Mapping[str, str]]) -> str:
    """Return the section: errors of the core by what a request waits for, and differences between equal runs."""
    groups: dict[str, list[MeasuredPrediction]] = defaultdict(list)
    core = comparisons([row for row in rows if is_core(row.cells)], METRIC)
    for one in core:
        for name in _groups_of(one):
            groups[name].append(one)
    lines = [("all", *score_cells(score(core)))]
    lines += [(name, *score_cells(score(groups[name]))) for name in sorted(groups)]
    text = FIRST_TOKENS_HEADER + _table(("rows of", *SCORE_HEADS), lines)
    return text + REPEATS_HEADER + _table(REPEAT_HEADS, list(_repeats(everything))) + FIRST_TOKENS_END


REPEAT_HEADS = ("tier", "equal but for", "pairs", "median difference", "p90")


def _groups_of(one: MeasuredPrediction) -> Iterator[str]:
    """Yield the groups that a row belongs to, one of each division; their names sort by division."""
    cells = one.groups
    load = cells["load"]
    alone = predict_row({**cells, **ALONE}, 2).metrics.get(METRIC)
    if load == "offline":
        yield "load: all requests at once"
    elif alone is not None and one.predicted is not None:
        ratio = one.predicted.value / alone.value
        yield f"load: {'idle' if ratio <= IDLE_UP_TO else 'loaded' if ratio <= LOADED_UP_TO else 'queue'}"
    tokens = float(cells["isl"])
    longest = next((edge for edge in PROMPTS if tokens <= edge), None)
    yield f"prompts: up to {longest:,} tokens" if longest else f"prompts: more than {PROMPTS[-1]:,} tokens"
    if load == "closed":
        yield f"start: burst, number of requests {'' if cells['num_requests'] else 'not '}stated"
    else:
        yield "start: no closed loop"


def _repeats(everything: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, ...]]:
    """Yield differences between runs of one source that are equal in all columns, or in all but the outputs'."""
    for name, columns, holds in (
        ("nothing", UNTOLD, lambda _: True),
        (
            "outputs",
            tuple(column for column in UNTOLD if column not in ("osl", "num_requests")),
            _has_few_clients,
        ),
    ):
        alike: dict[tuple[str, ...], list[Mapping[str, str]]] = defaultdict(list)
        for cells in everything:
            if measured_value(cells, METRIC) and is_core(cells) and holds(cells):
                alike[cells["source"], *(cells.get(column, "") for column in columns)].append(cells)
        by_tier: dict[str, list[float]] = defaultdict(list)
        for group in alike.values():
            for first, second in combinations(group, 2):
                if name == "nothing" or first["osl"] != second["osl"]:
                    times = [measured_value(cells, METRIC) or 1.0 for cells in (first, second)]
                    by_tier[first["tier"]].append(max(times) / min(times) - 1.0)
        for tier, found in sorted(by_tier.items()):
            shares = (f"{100 * np.quantile(found, level):.0f} %" for level in (0.5, 0.9))
            yield (tier, name, str(len(found)), *shares)


def _has_few_clients(cells: Mapping[str, str]) -> bool:
    """Whether a run has so few clients that the length of outputs hardly moves its first tokens."""
    return cells["load"] == "batch1" or 1 <= int(cells["concurrency"] or 0) <= FEW_CLIENTS


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    rows = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*rows, *("| " + " | ".join(line) + " |" for line in lines)]) + "\n"

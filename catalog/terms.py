"""The table of terms, `data/terms.csv`: every number with its source that is not physics, a datasheet figure or a
price.

The efficiencies of operators (`data/efficiency`) and the forms of collectives have a reader of their own: 600 records
of ten parameters each, fitted on kernels.
"""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import DATA_DIR, check_record, read_csv
from advisor.catalog.releases import is_release, spans_overlap
from advisor.catalog.schema.record import Record

Scope = Literal["engine", "framework", "device"]
"""Scope of a term: serving engine, training framework, or device (an accelerator or a network)."""
Kind = Literal["read in source", "measured", "fitted on kernels", "fitted on runs", "assumed"]
"""How the value was found. Measured: with a probe or a running engine of our own; fitted on runs: on published ones."""


class Term(Record):
    """Row of the table of terms. An empty selector holds for everything."""

    scope: Scope
    name: tuple[str, ...] = ()
    """Names within the scope, e.g. vllm; empty means every name."""
    since: str = ""
    """First release, as version, date or both: `0.14.0 2026-01-20`."""
    until: str = ""
    """First release after the span; empty if the span has no end."""
    architecture: tuple[str, ...] = ()
    """Architectures of the accelerator; a star at the end stands for any ending."""
    mixer: tuple[str, ...] = ()
    """Kinds of a layer's mixer, e.g. mla."""
    dtype: tuple[str, ...] = ()
    """Number formats of weights, or of the multiplication."""
    operator: tuple[str, ...] = ()
    term: str
    value: float = Field(ge=0)
    """Value of the term; never negative, because a negative cost has its cause in another term."""
    unit: str = Field(min_length=1)
    kind: Kind
    source: str = Field(min_length=1)
    fitted_on: str = ""
    """Campaigns of runs, or devices, that the value was fitted on."""
    residual: str = ""
    """Median of |predicted / measured - 1| on the cases left out of the fit."""

    @model_validator(mode="after")
    def _is_founded(self) -> Self:
        for field in ("since", "until"):
            if (release := getattr(self, field)) and not is_release(release):
                raise ValueError(f"{field} is a version, a date, or both: {release!r} is not")
        for field in ("fitted_on", "residual"):
            if self.kind.startswith("fitted on runs") and not getattr(self, field):
                raise ValueError(f"a term that is fitted on runs says {field}")
        return self

    @property
    def specificity(self) -> int:
        """Number of selectors that are filled; the span of releases counts as one."""
        selectors = (
            self.name,
            self.since or self.until,
            self.architecture,
            self.mixer,
            self.dtype,
            self.operator,
        )
        return sum(bool(selector) for selector in selectors)


FILE: Final = DATA_DIR / "terms.csv"
LISTS: Final = ("name", "architecture", "mixer", "dtype", "operator")
"""Selectors whose cell may hold several values, separated by spaces."""
COLUMNS: Final = tuple(Term.model_fields)
Terms = Mapping[tuple[str, str], tuple[Term, ...]]
"""Rows by scope and term, the most specific first."""


def _units(**terms: str) -> dict[str, str]:
    """Return unit by term, from the ending of the term; 1 without one."""
    endings = {
        "_bytes_per_s": "bytes/s",
        "_flop_per_s": "flop/s",
        "_s": "s",
        "_hz": "Hz",
        "_w": "W",
        "_bytes": "bytes",
        "_rows": "rows",
        "_kernels": "kernels",
    }
    words = " ".join(terms.values()).split()
    return {
        word: next((unit for ending, unit in endings.items() if word.endswith(ending)), "1") for word in words
    }


UNITS: Final[Mapping[str, Mapping[str, str]]] = {
    "engine": _units(
        host="step_s sequence_s mixed_step_s eager_launch_s collective_launch_s eager_sequence_s",
        kernels="kernel_scale release_scale layer_s prefill_scale launch_scale fused_quantisation uneven_streams "
        "latent_stream_share",
        experts="expert_scale expert_prefill_scale expert_block_rows busy_expert_rows expert_spared_fraction "
        "hidden_exchange_fraction",
        client="delivery_s message_s request_s intake_s prompt_token_s request_launch_s slow_launch_s state_launch_s "
        "first_burst_s",
        early="early_step_s early_sequence_s early_row_fraction early_attention_repeat "
        "early_prefill_scale early_wait_s",
        others="collective_wait_s network_wait_s host_sum_bytes_per_s sampled_sequences unmeasured_scale",
    ),
    "framework": _units(
        kernels="kernel_scale kernel_scale_w_per_tflop low_bit_scale attention_scale attention_backward "
        "recurrence_scale low_bit_expert_scale fused_expert_scale expert_capacity elementwise_passes eager_passes "
        "optimizer_passes straggler interference stream_fraction single_values_per_cycle unfused_fraction "
        "dequantized_fraction recurrence_backward hidden_by_weights exchange_processors length_spread",
        launches="launch_s kernels_per_layer tensor_kernels expert_kernels local_expert_kernels "
        "low_bit_expert_kernels fp8_kernels block_scaled_kernels pipeline_sync_s collective_wait_s "
        "backward_launches overlapped_launches adapter_launches graphs compiled_graphs autocast_launches "
        "graphed_mixer_share graphed_router_share",
        communication="communication_scale tensor_overlap expert_overlap context_overlap "
        "data_overlap gather_overlap shard_copies partial_recompute table_exposed",
        memory="main_gradient_bytes gradient_bytes ring_forward_bytes ring_backward_bytes host_update_bytes_per_s",
        reinforcement="reload_s network_fraction judge_utilisation",
    ),
    "device": _units(
        facts="num_sms clock_hz l2_bytes",
        power="full_clock_s sustained_flop_per_s sustained_at_w other_draw",
        draw="unloaded_fraction waiting_fraction memory_draw compute_draw",
    ),
}
"""Terms that the simulator reads, by scope, with their units."""


@cache
def all_terms() -> tuple[Term, ...]:
    """Return every bundled row, in the order of the file.

    Raises: InputFileError: the bundled file is damaged.
    """
    return read_terms(FILE)


@cache
def terms_by_name() -> Terms:
    """Return the bundled rows by scope and term, the most specific first."""
    return by_name(all_terms())


def by_name(terms: Iterable[Term]) -> Terms:
    """Return rows by scope and term, the most specific first."""
    found: dict[tuple[str, str], list[Term]] = defaultdict(list)
    for term in terms:
        found[term.scope, term.term].append(term)
    return {key: tuple(sorted(rows, key=lambda row: -row.specificity)) for key, rows in found.items()}


def read_terms(path: Path) -> tuple[Term, ...]:
    """Return the rows of a table of terms.

    Raises: InputFileError: the file is unreadable; a row has no unit, no source, an unknown term or kind, or does not
        state what it was fitted on; two rows tie. The message has file and row.
    """
    rows = [(number, _term(path, number, cells)) for number, cells in read_csv(path, COLUMNS)]
    _check_ties(path, rows)
    return tuple(term for _, term in rows)


def write_terms(path: Path, terms: Iterable[Term]) -> None:
    """Write a table of terms in place of the old one."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for term in terms:
        cells = {name: getattr(term, name) for name in COLUMNS}
        cells |= {name: " ".join(cells[name]) for name in LISTS}
        writer.writerow([f"{value:.12g}" if isinstance(value, float) else value for value in cells.values()])
    path.write_text(stream.getvalue(), encoding="utf-8")


def _term(path: Path, number: int, cells: dict[str, str]) -> Term:
    where = f"{path} row {number}"
    split = {name: tuple(text.split()) if name in LISTS else text for name, text in cells.items()}
    term = check_record(Term, split, where)
    unit = UNITS[term.scope].get(term.term)
    if unit is None:
        raise InputFileError(
            f"{where}: field term: {term.term!r}",
            why=f"nothing asks for such a term of scope {term.scope}",
            fix="use one of: " + ", ".join(sorted(UNITS[term.scope])),
        )
    if unit != term.unit:
        raise InputFileError(
            f"{where}: field unit: {term.unit!r}", why=f"{term.term} is in {unit}", fix=f"write {unit}"
        )
    return term


def _check_ties(path: Path, rows: list[tuple[int, Term]]) -> None:
    """Refuse two rows that both hold for some case, if neither is more specific."""
    rivals: dict[tuple[str, str, int], list[tuple[int, Term]]] = defaultdict(list)
    for number, term in rows:
        rivals[term.scope, term.term, term.specificity].append((number, term))
    for some in rivals.values():
        for (first_number, first), (second_number, second) in combinations(some, 2):
            if _both_hold(first, second):
                raise InputFileError(
                    f"{path} row {second_number}: ties with row {first_number}",
                    why=f"both give {first.term} for some case, and neither is more specific",
                    fix="end the older span, fill another selector of one of them, or join them",
                )


def _both_hold(first: Term, second: Term) -> bool:
    lists = ((getattr(first, name), getattr(second, name)) for name in LISTS)
    return spans_overlap((first.since, first.until), (second.since, second.until)) and all(
        not some or not others or any(_same(one, other) for one in some for other in others)
        for some, others in lists
    )


def _same(one: str, other: str) -> bool:
    return matches(one, other.removesuffix("*")) or matches(other, one.removesuffix("*"))


def matches(pattern: str, name: str) -> bool:
    """Whether a name equals a selector, or begins with it if the selector ends with a star."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern

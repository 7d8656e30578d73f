"""The table of terms: every row is founded, reached by somebody, and wins where it is the most specific."""

from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest

from advisor.catalog import accelerators, engines
from advisor.catalog.errors import InputFileError
from advisor.catalog.releases import belongs, split
from advisor.catalog.terms import (
    COLUMNS,
    FILE,
    UNITS,
    Term,
    all_terms,
    by_name,
    matches,
    read_terms,
    terms_by_name,
    write_terms,
)
from advisor.simulator.engine_costs import EngineCosts, EraKernels
from advisor.simulator.terms import TermCase, fill_record, find, find_in, value
from advisor.simulator.training.framework_costs import FrameworkCosts

ARCHITECTURES = {accelerator.architecture for accelerator in accelerators.all_accelerators()}
NAMES = {
    "engine": set(engines.all_ids()),
    "framework": {"megatron", "fsdp", "torchtitan", "deepspeed", "peft", "maxtext"},
    "device": {accelerator.id for accelerator in accelerators.all_accelerators()},
}
DAYS = ("2020-01", "2024-01", "2024-08", "2025-01", "2025-09-30", "2026-04", "2026-07", "2026-11")


def row(**cells: str) -> str:
    """A line of the table; what is not given is founded and general."""
    founded = {
        "scope": "engine",
        "term": "step_s",
        "value": "1",
        "unit": "s",
        "kind": "assumed",
        "source": "a page",
    }
    return ",".join({**dict.fromkeys(COLUMNS, ""), **founded, **cells}.values())


def read(tmp_path: Path, *lines: str) -> tuple[Term, ...]:
    path = tmp_path / "terms.csv"
    path.write_text("\n".join((",".join(COLUMNS), *lines)) + "\n")
    return read_terms(path)


def cases(term: Term) -> list[TermCase]:
    """Cases that meet just the row's selectors, at its first release and at some days."""
    architectures = [
        name for name in ARCHITECTURES for pattern in term.architecture if matches(pattern, name)
    ]
    version, date = split(term.since)
    return [
        TermCase(name, *release, architecture, mixer, dtype, operator)
        for name in term.name or ("",)
        for architecture in architectures or [""]
        for mixer in term.mixer or ("",)
        for dtype in term.dtype or ("",)
        for operator in term.operator or ("",)
        for release in ((version, date), *(("", day) for day in DAYS))
    ]


def test_every_row_is_reached() -> None:
    for term in all_terms():
        assert set(term.name) <= NAMES[term.scope]
        for pattern in term.architecture:
            assert any(matches(pattern, name) for name in ARCHITECTURES), pattern
        assert any(find(term.scope, term.term, case) == term for case in cases(term))


def test_rows_are_counted_by_how_they_were_found(capsys: pytest.CaptureFixture[str]) -> None:
    counts = Counter(term.kind for term in all_terms())
    with capsys.disabled():
        print("\nterms:", ", ".join(f"{count} {kind}" for kind, count in counts.most_common()))
    assert counts["fitted on runs"] <= 51
    assert sum(counts.values()) < 250
    of_engines = [term for term in all_terms() if term.scope == "engine" and term.kind == "fitted on runs"]
    assert all(term.fitted_on and term.residual for term in of_engines)


def test_no_number_of_a_single_campaign_reaches_a_recommendation() -> None:
    """A recommendation asks for the newest release of the engines that an accelerator's record names."""
    offered = {engine for chip in accelerators.all_accelerators() for engine in chip.engines}
    for term in all_terms():
        newest = belongs(term.since, term.until)
        reached = newest and (not term.name or offered & set(term.name))
        if term.scope == "engine" and term.kind == "fitted on runs" and reached:
            assert len(term.fitted_on.split(";")) > 1, (term.name, term.term)


def test_fields_of_records_are_terms() -> None:
    set_elsewhere = {"release_layers_s"}
    assert {field.name for field in fields(EngineCosts)} - set_elsewhere <= set(UNITS["engine"])
    assert {f"early_{field.name}" for field in fields(EraKernels)} <= set(UNITS["engine"])
    assert {field.name for field in fields(FrameworkCosts)} <= set(UNITS["framework"])
    asked = {(scope, term) for scope, terms in UNITS.items() for term in terms}
    neutral = {("engine", "kernel_scale")}
    assert asked - set(terms_by_name()) <= neutral


def test_the_most_specific_row_wins(tmp_path: Path) -> None:
    rows = read(
        tmp_path,
        row(value="1"),
        row(value="2", name="vllm sglang"),
        row(value="3", name="vllm", since="0.8.0 2025-03-18", until="0.14.0 2026-01-20"),
        row(value="4", name="vllm", since="0.14.0 2026-01-20"),
        row(value="5", name="vllm", architecture="ampere*", mixer="mla", since="0.14.0"),
    )
    expected = {
        TermCase(): 1,
        TermCase("mlx"): 1,
        TermCase("sglang"): 2,
        TermCase("vllm", "0.7"): 2,
        TermCase("vllm", "0.9"): 3,
        TermCase("vllm", date="2025-06"): 3,
        TermCase("vllm"): 4,
        TermCase("vllm", architecture="ampere-geforce", mixer="mla"): 5,
        TermCase("vllm", "0.9", architecture="ampere", mixer="mla"): 3,
        TermCase("vllm", architecture="ada", mixer="mla"): 4,
    }
    for case, number in expected.items():
        found = find_in(by_name(rows), "engine", "step_s", case)
        assert found is not None
        assert found.value == number, case


def test_a_release_is_found_by_version_or_by_date() -> None:
    assert value("engine", "step_s", TermCase("vllm", "0.8.0")) == 7.4e-4
    assert value("engine", "step_s", TermCase("vllm", date="2025-06-01")) == 7.4e-4
    assert (
        value("engine", "step_s", TermCase("vllm", "0.20.2")) == value("engine", "step_s", TermCase()) == 2e-4
    )
    assert fill_record(EngineCosts, "engine", TermCase("vllm", "0.8.0")).step_s == 7.4e-4
    with pytest.raises(KeyError, match="layer_s"):
        value("engine", "layer_s", TermCase())


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([row(unit="")], "row 2: field unit"),
        ([row(unit="ms")], "row 2: field unit: 'ms'"),
        ([row(), row(name="vllm", source="")], "row 3: field source"),
        ([row(term="steps")], "row 2: field term: 'steps'"),
        ([row(kind="guessed")], "row 2: field kind"),
        ([row(scope="planet")], "row 2: field scope"),
        ([row(value="fast")], "row 2: field value"),
        ([row(value="-1")], "row 2: field value"),
        ([row(since="soon")], "row 2: field record"),
        ([row(kind="fitted on runs", residual="0.1")], "row 2: field record"),
        ([row(kind="fitted on runs", fitted_on="a campaign")], "row 2: field record"),
        ([row(), row(value="2")], "row 3: ties with row 2"),
        ([row(name="vllm"), row(name="sglang vllm")], "row 3: ties with row 2"),
        ([row(name="vllm"), row(architecture="hopper")], "row 3: ties with row 2"),
        ([row(architecture="ampere*"), row(architecture="ampere-geforce")], "row 3: ties with row 2"),
        ([row(since="0.8.0", until="0.14.0"), row(since="0.13.0")], "row 3: ties with row 2"),
    ],
)
def test_a_row_that_is_not_founded_or_ties_is_refused(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(InputFileError, match=message):
        read(tmp_path, *lines)


def test_the_file_is_as_the_fits_write_it(tmp_path: Path) -> None:
    copy = tmp_path / "terms.csv"
    write_terms(copy, all_terms())
    assert copy.read_text(encoding="utf-8") == FILE.read_text(encoding="utf-8")

"""Results of `dcgmi diag`: no failure is lost and nothing that was skipped counts as passed, in every form."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from advisor.catalog.formats.dcgm_diagnostic import read_dcgm_diagnostic

_NAMES: Final = (
    "Diagnostic",
    "NVML Library",
    "PCIe",
    "memory_bandwidth",
    "Page Retirement/Row Remap",
    "EUD Test",
)
_STATUSES: Final = ("Pass", "Fail", "Skip", "Warn")
_WORST: Final = ("Fail", "Warn", "Skip", "Pass")
_RULE: Final = f"+{'-' * 27}+{'-' * 48}+"
_HEAD: Final = (_RULE, f"| {'Diagnostic':<25} | {'Result':<46} |", f"+{'=' * 27}+{'=' * 48}+")
_SAID: Final = "Thermal violations totaling 18.3 seconds were seen"
Test = tuple[str, tuple[str, str]]
"""Name of a test, and its results on GPU 0 and GPU 1."""


def _row(name: str, words: str) -> str:
    return f"| {name:<25} | {words:<46} |"


def _remark(label: str) -> Iterator[str]:
    """Yield the rows of a remark, which the program cuts after 45 characters."""
    for start in range(0, len(_SAID), 45):
        yield _row("" if start else label, _SAID[start : start + 45])


def _worst(states: tuple[str, str]) -> str:
    return min(states, key=_WORST.index)


def _early_table(tests: list[Test]) -> str:
    """Return the table of DCGM 2 and 3, whose rows state the GPUs of each status."""
    lines = [
        *_HEAD,
        _row("DCGM Version", "3.3.6"),
        "+-----  Hardware  ----------+------------------------------------------------+",
    ]
    for name, (first, second) in tests:
        if first == second:
            lines.append(_row(name, f"{first} - All"))
        else:
            lines += [_row(name, f"{first} - GPU: 0"), _row("", f"{second} - GPU: 1")]
        lines += _remark("Warning") if _worst((first, second)) == "Fail" else ()
    return "\n".join([*lines, _RULE])


def _late_table(tests: list[Test]) -> str:
    """Return the table of DCGM 4, whose rows below a test state the result of each GPU."""
    lines = [*_HEAD, _row("DCGM Version", "4.6.0"), _row("GPU Device IDs Detected", "2330, 2330")]
    for name, states in tests:
        lines.append(_row(name, _worst(states)))
        for gpu, state in enumerate(states):
            lines.append(_row("", f"GPU{gpu}: {state}"))
            lines += _remark(f"Warning: GPU{gpu}") if state == "Fail" else ()
    return "\n".join([*lines, _RULE])


def _document(tests: list[Test]) -> str:
    def result(gpu: int, state: str) -> dict[str, Any]:
        return {"gpu_id": str(gpu), "status": state.upper()} | (
            {"warnings": [_SAID]} if state == "Fail" else {}
        )

    listed = [
        {"name": name, "results": [result(gpu, state) for gpu, state in enumerate(states)]}
        for name, states in tests
    ]
    return json.dumps({"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": listed}]}})


_FORMS: Final = {"dcgm-3": _early_table, "dcgm-4": _late_table, "json": _document}
_RUNS: Final = [
    [
        (name, states)
        for name, states in zip(_NAMES, itertools.islice(itertools.cycle(pairs), start, None), strict=False)
    ]
    for pairs in [tuple(itertools.product(_STATUSES, repeat=2))]
    for start in range(len(pairs))
]


@pytest.mark.parametrize("form", _FORMS.values(), ids=_FORMS.keys())
@pytest.mark.parametrize("tests", _RUNS, ids=range(len(_RUNS)))
def test_each_test_has_the_worst_result_of_its_gpus_whatever_its_name(
    form: Callable[[list[Test]], str], tests: list[Test]
) -> None:
    checks = read_dcgm_diagnostic(form(tests)).checks
    assert {check.name: check.status for check in checks} == {
        name: _worst(states).lower() for name, states in tests
    }
    assert all(_SAID in check.detail for check in checks if check.status == "fail")


@pytest.mark.parametrize("form", _FORMS.values(), ids=_FORMS.keys())
@pytest.mark.parametrize("tests", _RUNS[::4], ids=range(0, len(_RUNS), 4))
def test_no_count_of_passes_includes_what_was_skipped(
    cli: Callable[[str], Any], tmp_path: Path, form: Callable[[list[Test]], str], tests: list[Test]
) -> None:
    worst = [_worst(states) for _, states in tests]
    file = tmp_path / "diag.txt"
    file.write_text(form(tests))
    said = " ".join(cli(f"advisor validate file {file}").out.split())
    assert f"{worst.count('Pass')} of {len(worst)} checks passed" in said
    skipped = [name for name, states in tests if _worst(states) == "Skip"]
    assert ("Not measured" in said) == bool(skipped)
    assert all(name in said for name, states in tests if _worst(states) != "Pass")
    read = cli(f"advisor probe read {file} --json")
    assert read.code == (4 if "Fail" in worst else 0)
    found = [m["status"] for m in json.loads(read.out)["measurements"] if m["id"].startswith("dcgm.")]
    assert found == [{"Skip": "not_measured"}.get(one, one.lower()) for one in worst]


def test_a_load_test_that_was_skipped_is_missing(cli: Callable[[str], Any], tmp_path: Path) -> None:
    for state, is_missing in (("Skip", True), ("Pass", False)):
        (tmp_path / "diag.txt").write_text(
            _early_table([("Diagnostic", (state, state)), ("PCIe", ("Pass", "Pass"))])
        )
        found = cli(f"advisor probe read {tmp_path / 'diag.txt'} --json").document()
        (coverage,) = (m for m in found["measurements"] if m["id"] == "pasted.coverage")
        assert ("-r 3 by dcgmi diag" in coverage["note"]) == is_missing


def test_a_document_behind_its_command_is_read() -> None:
    text = _document([("PCIe", ("Pass", "Fail"))])
    assert read_dcgm_diagnostic(f"$ dcgmi diag -r 3 -j\n{text}\n$") == read_dcgm_diagnostic(text)

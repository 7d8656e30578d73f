"""Study files: what they mean, and how each mistake is told."""

from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.catalog.errors import InputFileError
from advisor.commands.sweep.targets import fields_of, targets
from advisor.sweep.points import points_of
from advisor.sweep.study import Study, read_study

GOOD = """
command = "simulate serve"

[base]
model = "8b"
gpu = "h100"

[grid]
rate = [1, 2.5, "600/min"]
tp = [1, 2]
"""


@pytest.fixture
def study(tmp_path: Path) -> Callable[[str], Study]:
    def read(text: str) -> Study:
        file = tmp_path / "study.toml"
        file.write_text(text, encoding="utf-8")
        return read_study(file, tuple(targets()), fields_of)

    return read


def points(found: Study, seed: int = 0) -> list[dict[str, object]]:
    return [dict(point.options) for point in points_of(found, fields_of(found.command), {"seed": seed})[0]]


def test_a_grid_is_every_combination(study: Callable[[str], Study]) -> None:
    found = points(study(GOOD))
    assert len(found) == 6
    assert found[0] == {"seed": 0, "model": "8b", "gpu": "h100", "rate": "1", "tp": 1}
    assert {(point["rate"], point["tp"]) for point in found} == {
        (rate, tp) for rate in ("1", "2.5", "600/min") for tp in (1, 2)
    }


def test_cases_hold_values_that_belong_together(study: Callable[[str], Study]) -> None:
    text = 'command = "simulate serve"\n[base]\nmodel = "8b"\n[grid]\nrate = [1, 2]\n'
    text += '[[case]]\ngpu = "h100"\ntp = 1\n[[case]]\ngpu = "l40s"\ntp = 2\n'
    found = points(study(text))
    assert [(p["gpu"], p["tp"], p["rate"]) for p in found] == [
        ("h100", 1, "1"),
        ("h100", 1, "2"),
        ("l40s", 2, "1"),
        ("l40s", 2, "2"),
    ]


RANDOM = """
command = "simulate serve"
[base]
model = "8b"
[random]
points = {count}
seed = 3
gpu = ["h100", "l40s", "a100"]
rate = {{ low = 0.1, high = 100, log = true }}
ttft = {{ low = 100, high = 200, unit = "ms" }}
max_num_seqs = {{ low = 4, high = 64 }}
"""


def test_draws_stay_inside_their_ranges_and_repeat(study: Callable[[str], Study]) -> None:
    found = points(study(RANDOM.format(count=200)))
    assert found == points(study(RANDOM.format(count=200)))
    rates = [float(str(point["rate"])) for point in found]
    assert min(rates) >= 0.1
    assert max(rates) <= 100
    assert 80 < sum(rate < 10**0.5 for rate in rates) < 120  # half of the range in its logarithm
    assert all(isinstance(p["max_num_seqs"], int) and 4 <= p["max_num_seqs"] <= 64 for p in found)
    assert all(str(point["ttft"]).endswith("ms") for point in found)
    assert {point["gpu"] for point in found} == {"h100", "l40s", "a100"}


def test_more_draws_or_fields_leave_the_others_as_they_were(study: Callable[[str], Study]) -> None:
    few = points(study(RANDOM.format(count=20)))
    many = points(study(RANDOM.format(count=40)))
    assert many[:20] == few
    wider = points(study(RANDOM.format(count=20) + "tp = [1, 2]\n"))
    assert [{k: v for k, v in point.items() if k != "tp"} for point in wider] == few


def test_another_seed_draws_otherwise(study: Callable[[str], Study]) -> None:
    text = RANDOM.format(count=20)
    assert points(study(text)) != points(study(text.replace("seed = 3", "seed = 4")))
    unseeded = text.replace("seed = 3\n", "")
    assert points(study(unseeded), 1) != points(study(unseeded), 2)


def test_ids_follow_the_question_and_nothing_else(study: Callable[[str], Study], tmp_path: Path) -> None:
    def ids(text: str) -> list[str]:
        found = study(text)
        return [point.id for point in points_of(found, fields_of(found.command), {"seed": 0})[0]]

    reordered = GOOD.replace('model = "8b"\ngpu = "h100"', 'gpu = "h100"\nmodel = "8b"')
    assert ids(GOOD) == ids(reordered)
    assert len(set(ids(GOOD))) == 6
    assert not set(ids(GOOD)) & set(ids(GOOD.replace('"h100"', '"h200"')))
    trace = tmp_path / "trace.csv"
    trace.write_text("a")
    with_trace = 'command = "simulate serve"\n[base]\nmodel = "8b"\ngpu = "h100"\n[grid]\ntrace = ["{}"]\n'
    first = ids(with_trace.format("trace.csv"))
    copy = tmp_path / "copy.csv"
    copy.write_text("a")
    assert ids(with_trace.format("copy.csv")) == first  # a file counts by its content
    other = tmp_path / "other.csv"
    other.write_text("b")
    assert ids(with_trace.format("other.csv")) != first


def test_what_is_named_twice_is_asked_once(study: Callable[[str], Study]) -> None:
    found = study(GOOD.replace("tp = [1, 2]", "tp = [1, 1, 2]"))
    kept, doubles = points_of(found, fields_of(found.command), {})
    assert (len(kept), doubles) == (6, 3)


def test_default_stands_for_the_option_not_given(study: Callable[[str], Study]) -> None:
    found = points(study(GOOD.replace("tp = [1, 2]", 'precision = ["default", "fp8"]')))
    assert [point.get("precision") for point in found[:2]] == [None, "fp8"]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("rate =", "raet =", 9, ("unknown field 'raet'", "write rate")),
        ("tp = [1, 2]", 'tp = [1, "two"]', 10, ("'two' is not a whole number",)),
        ("tp = [1, 2]", "tp = [1, 0]", 10, ("0 is out of range", "at least 1")),
        ("tp = [1, 2]", "tp = [1.5]", 10, ("1.5 is not a whole number",)),
        ("tp = [1, 2]", "tp = 2", 10, ("not a list", "tp = [...]")),
        ("tp = [1, 2]", "tp = []", 10, ("not a list",)),
        ("tp = [1, 2]", 'router = ["round_robbin"]', 10, ("none of", "write round_robin")),
        ("tp = [1, 2]", 'gpu = ["h200"]', 10, ("stands in [base] and in [grid]",)),
        ("tp = [1, 2]", 'trace = ["gone.csv"]', 10, ("no such file",)),
        ("tp = [1, 2]", 'records = ["out.csv"]', 10, ("unknown field 'records'",)),
        ("tp = [1, 2]", "tp = [true]", 10, ("True is not a whole number",)),
        ("[grid]", "[gird]", 8, ("unknown entry 'gird'", "grid")),
        ('gpu = "h100"\n', "", 4, ("gpu must be given",)),
        ('"simulate serve"', '"simulate serv"', 2, ("unknown command", 'command = "simulate serve"')),
        ("[grid]", "[random]\npoints = 3\n[grid]", 9, ("[random] needs both points and fields",)),
        ("[grid]", "[random]\npoints = -1\n[grid]", 9, ("-1 is not a whole number from 1",)),
        ("[grid]", "[random]\npoints = 2\ntp = {low = 4, high = 1}\n[grid]", 10, ("needs low < high",)),
        (
            "[grid]",
            "[random]\npoints = 2\nmax_num_seqs = {low = 0, high = 1}\n[grid]",
            10,
            ("0 is out of range",),
        ),
    ],
)
def test_mistakes_are_told_with_file_and_line(
    study: Callable[[str], Study], old: str, new: str, line: int, words: tuple[str, ...]
) -> None:
    assert old in GOOD
    with pytest.raises(InputFileError) as caught:
        study(GOOD.replace(old, new, 1))
    told = " ".join((caught.value.what, caught.value.why, caught.value.fix))
    assert f"study.toml: line {line}: " in told
    for word in words:
        assert word in told


def test_too_many_points_are_refused(study: Callable[[str], Study]) -> None:
    tps = ", ".join(map(str, range(1, 1025)))
    with pytest.raises(InputFileError, match="too many"):
        study(GOOD.replace("tp = [1, 2]", f"tp = [{tps}]\npp = [{tps}]"))


def test_fields_have_the_names_of_options() -> None:
    assert fields_of("simulate collective")["bytes"].parameter == "size"
    assert fields_of("simulate adapters")["adapters"].parameter == "count"
    assert fields_of("simulate diffusion")["guidance"].kind is bool
    assert {"deadline", "steps", "workload"} <= fields_of("recommend").keys()
    assert "plan" not in fields_of("recommend")


def test_examples_count_by_name_and_files_by_content(study: Callable[[str], Study], tmp_path: Path) -> None:
    text = 'command = "simulate fleet"\n[grid]\ndescription = ["tenants", "own.toml"]\n'
    own = tmp_path / "own.toml"
    own.write_text("a = 1")
    first = study(text)
    assert [point["description"] for point in points(first)] == ["tenants", str(own)]
    ids = [point.id for point in points_of(first, fields_of(first.command), {})[0]]
    own.write_text("a = 22")
    again = [point.id for point in points_of(first, fields_of(first.command), {})[0]]
    assert again[0] == ids[0]
    assert again[1] != ids[1]


def test_every_target_is_a_command_with_fields() -> None:
    for command in targets():
        fields = fields_of(command)
        assert {"seed", "as_of", "calibration"} <= fields.keys()
        assert "output" not in fields

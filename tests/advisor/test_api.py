"""The Python interface: the same questions, refusals and documents as the command line, typed from the same records."""

import dataclasses
import datetime
import importlib.util
import inspect
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

import numpy
import pytest

import advisor
from advisor import api
from advisor.api import call
from advisor.ask.inputs import option_name, parameters_of
from advisor.catalog.errors import AdvisorError
from advisor.catalog.listing import FUNCTIONS as LISTS
from advisor.catalog.listing import MODULES as LIST_MODULES
from advisor.catalog.resolve import drop_separators
from advisor.cli.command import commands
from advisor.decide.option import Option
from advisor.render.document import to_json

Cli = Callable[[str], Any]
ROOT = Path(__file__).resolve().parents[2]
DAY = "2026-11-20"
QUESTIONS = [
    ("catalog gpus --vendor amd", lambda: advisor.catalog.gpus(vendor="amd")),
    ("catalog models --max-parameters 3000000000", lambda: advisor.catalog.models(max_parameters=3e9)),
    ("catalog show h100", lambda: advisor.catalog.show("h100")),
    ("roofline --gpu h100 --model 8b", lambda: advisor.roofline("8b", gpu="h100")),
    (
        "simulate serve --model 8b --gpu h100 --rate 2 --requests 200 --ttft 1s",
        lambda: advisor.simulate.serve("8b", gpu="h100", rate=2, requests=200, ttft=1),
    ),
    (
        "simulate collective --bytes 1GiB --gpus 16",
        lambda: advisor.simulate.collective(bytes=2**30, gpus=16),
    ),
    ("simulate train --model 8b --gpus 8", lambda: advisor.simulate.train(model="8b", gpus=8)),
    (
        "recommend --model 8b --rate 2 --gpu l4,l40s --ttft-p99 500ms --fast --top 2",
        lambda: advisor.recommend("8b", rate=2, gpu=["l4", "l40s"], ttft_p99=0.5, fast=True, top=2),
    ),
    (
        "recommend --model bge-m3 --workload embed --rate 50 --gpu l4",
        lambda: advisor.recommend("bge-m3", workload="embed", rate=50, gpu="l4"),
    ),
    (
        "recommend --model 8b --workload train --tokens 1B --gpus 8 --gpu h100",
        lambda: advisor.recommend("8b", workload="train", tokens=1e9, gpus=8, gpu="h100"),
    ),
    (
        "build check --part '2x RTX 5090 $4500' --no-better --model 8b",
        lambda: advisor.build.check(part=["2x RTX 5090 $4500"], better=False, model="8b"),
    ),
]


@pytest.fixture(autouse=True)
def _one_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.ask.options.today", lambda: datetime.date.fromisoformat(DAY))


def without_times(document: Any) -> Any:
    if isinstance(document, dict):
        return {name: without_times(value) for name, value in document.items() if not name.endswith("wall_s")}
    return [without_times(each) for each in document] if isinstance(document, list) else document


@pytest.mark.parametrize(("words", "ask"), QUESTIONS, ids=[words for words, _ in QUESTIONS])
def test_a_result_is_the_document_that_the_command_prints(
    cli: Cli, words: str, ask: Callable[[], api.Result]
) -> None:
    run = cli(f"advisor {words} --json")
    result = ask()
    printed = json.loads(run.out)
    assert without_times(json.loads(json.dumps(result.to_dict()))) == without_times(printed)
    frame = result.to_frame()
    assert len(frame) == (len(result.answer.rows()) if result.answer.records else 1)
    page = result._repr_html_()
    assert page.startswith("<div")
    assert "<script" not in page
    assert str(result).strip()


def test_importing_loads_nothing() -> None:
    heavy = "numpy pandas pydantic typer rich scipy torch advisor.api advisor.catalog".split()  # noqa: SIM905
    code = (
        "import time; start = time.process_time(); import advisor; took = time.process_time() - start\n"
        f"import sys; print(took, sorted(set({heavy!r}) & set(sys.modules)), dir(advisor))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    took, _, rest = done.stdout.partition(" ")
    assert float(took) < 0.1
    assert rest.startswith("[]")
    for name in ("recommend", "cost", "build", "simulate", "roofline", "calibrate", "validate", "catalog"):
        assert f"'{name}'" in rest


def test_a_lists_module_is_still_a_module() -> None:
    from advisor.catalog import models

    assert isinstance(models, ModuleType)
    assert models.get("70b").record.id
    with pytest.raises(AttributeError):
        advisor.catalog.gpu  # noqa: B018  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        advisor.recomend  # noqa: B018  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="it has adapters"):
        advisor.simulate.server  # noqa: B018  # type: ignore[attr-defined]


def names() -> list[str]:
    """Every command that Python has."""
    singles = [*api.FUNCTIONS, "build check"]
    grouped = [f"{word} {each.replace('_', '-')}" for word in api.GROUPS for each in dir(api.Group(word))]
    lists = [f"catalog {each}" for each in (*LISTS, *LIST_MODULES)]
    return [*singles, *grouped, *lists]


def test_every_command_but_those_about_this_machine_is_a_function() -> None:
    local = {name for name, found in commands().items() if found.is_local}
    assert {"probe", "sweep", "config show", "catalog refresh"} <= local
    assert set(names()) == set(commands()) - local


@pytest.mark.parametrize("name", names())
def test_keywords_are_the_options_of_the_command(name: str) -> None:
    known = api.keywords_of(name)
    options = {each.name: option_name(each) for each in parameters_of(commands()[name].inputs)}
    in_words = ["question"] if "use_case" in options.values() else []
    assert {each.parameter.name for each in known.values()} == {*options, *in_words, *api.SHARED}
    for word, each in known.items():
        expected = {each.parameter.name, option_name(each.parameter)}
        assert word in expected
        assert each.help, word
        assert f"    {word}" in api.documentation(name)
    assert list(api.signature_of(name).parameters) == list(known)


WRONG: dict[Any, Any] = {bool: "yes", int: 1.5, float: "fast", str: object(), Path: 7, datetime.date: "soon"}


@pytest.mark.parametrize("name", names())
def test_bad_input_is_refused_by_every_function_and_keyword(name: str) -> None:
    """A wrong type, an unknown keyword and a missing one are an AdvisorError that says what to do."""
    known = api.keywords_of(name)
    needed = {word: "x" for word, each in known.items() if each.parameter.default is inspect.Parameter.empty}
    bad = [
        {**needed, "no_such_option": 1},
        *({k: v for k, v in needed.items() if k != word} for word in needed),
    ]
    for word, each in known.items():
        kind = list if get_origin(each.kind) is list else each.kind
        choices = get_args(each.kind) if kind not in WRONG and kind is not list else ()
        bad.append({**needed, word: "nothing-of-that-name" if choices else WRONG.get(kind, object())})
        if each.unit is None and kind is str:
            bad.append({**needed, word: 5})
        if kind in (int, float):
            bad += [{**needed, word: float("nan")}, {**needed, word: True}]
    for options in bad:
        with pytest.raises(AdvisorError) as raised:
            api.call(name, (), options)
        assert raised.value.fix, options
        assert any("To fix" in note for note in raised.value.__notes__)


def test_a_number_is_in_si_units() -> None:
    known = api.keywords_of("recommend")
    given = {
        "rate": (10, "10"),
        "ttft_p99": (0.5, "0.5s"),
        "deadline": (86400, "86400s"),
        "power_budget": (5e3, "5000W"),
        "max_context": ([65536, "1M"], "65536,1M"),
        "own": (["8xh100", "4xl40s"], "8xh100,4xl40s"),
        "tokens": (1e12, "1000000000000"),
        "rl_steps": ("2k", 2000),
        "max_gpus": (8.0, 8),
        "top": (numpy.int64(3), 3),
        "headroom": ("0.3", 0.3),
        "tpot_p99": (numpy.float64(0.05), "0.05s"),
        "price_file": ("a.csv", Path("a.csv")),
        "as_of": ("2026-11-20", datetime.date(2026, 11, 20)),
    }
    for word, (value, taken) in given.items():
        assert api.value_of(known[word], value) == taken, word
        assert type(api.value_of(known[word], value)) is type(taken), word
    sizes = api.keywords_of("simulate offload")
    assert api.value_of(sizes["host_memory"], 512e9) == "512000000000B"
    assert api.value_of(sizes["host_bandwidth"], 3e11) == "300000000000B/s"


def test_a_budget_without_a_period_is_asked_for() -> None:
    with pytest.raises(AdvisorError, match="dollars of what time"):
        advisor.recommend("8b", budget=5000)
    with pytest.raises(AdvisorError, match="means nothing for --workload serve"):
        advisor.recommend("8b", gpus=8)


def test_a_result_is_frozen_and_travels() -> None:
    result = advisor.catalog.gpus(vendor="amd")
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.command = "other"
    with pytest.raises(AttributeError, match="has no 'options'; it has accelerators"):
        result.options  # noqa: B018
    with pytest.raises(AttributeError, match="cannot be changed"):
        result.accelerators[0].id = "other"
    assert result.accelerators[0].id == result.accelerators[0]["id"] == "bc-250"
    with pytest.raises(AttributeError, match="no field 'idd'; there are id"):
        result.accelerators[0].idd  # noqa: B018
    assert pickle.loads(pickle.dumps(result.accelerators[0])) == result.accelerators[0]
    again = pickle.loads(pickle.dumps(result))
    assert again.to_dict() == result.to_dict()
    assert "accelerators" in dir(result)


def test_a_result_is_saved_as_its_suffix_says(tmp_path: Path) -> None:
    result = advisor.catalog.gpus(vendor="amd")
    for suffix in ("json", "csv", "md", "html"):
        result.save(tmp_path / f"gpus.{suffix}")
    assert json.loads((tmp_path / "gpus.json").read_text()) == result.to_dict()
    with pytest.raises(AdvisorError):
        result.save(tmp_path / "gpus.xlsx")


def test_every_chart_of_every_kind_is_drawn() -> None:
    """The figure has the units of the axes, a mark for each series, and the picture that a notebook asks for."""
    pytest.importorskip("matplotlib")
    from advisor.render.answer import Axis, Chart, Datum, Reference, Series
    from advisor.render.matplotlib_chart import draw_chart

    points = (Datum(1.0, 8.0, 6.0, 10.0, "a"), Datum(9.0, 1.0, 0.5, 2.0, "b"))
    names = (Datum("a", 3.0, 2.0, 4.0), Datum("b", -1.0, -2.0, 0.5))
    for kind in ("line", "scatter", "bar", "stacked", "waterfall", "range"):
        is_named = kind in ("bar", "stacked", "waterfall", "range")
        one = Series("one", names if is_named else points, is_joined=kind == "line")
        series = (one,) if kind in ("waterfall", "range") else (one, Series("two", one.points, is_muted=True))
        x = Axis("part") if is_named else Axis("load", "1/s", is_log=True)
        chart = Chart(kind, "Title", x, Axis("cost", "$"), series, references=(Reference("y", 1.5, "limit"),))
        figure = draw_chart(chart)
        (axes,) = figure.axes
        assert "cost, $" in (axes.get_xlabel(), axes.get_ylabel())
        assert figure._repr_png_().startswith(b"\x89PNG")
        assert "limit" in [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_files_and_charts_of_a_result(tmp_path: Path) -> None:
    found = advisor.recommend("8b", rate=2, gpu="l40s", engine="vllm", fast=True)
    told = advisor.recommend("8b", rate=2, gpu="l40s", engine="vllm", fast=True, emit="compose").to_dict()
    assert found.emit("compose", tmp_path / "files") == told["deployment"]["files"]
    assert sorted(path.name for path in (tmp_path / "files").iterdir()) == sorted(told["deployment"]["files"])
    for ask, fix in (
        (lambda: found.plot("Cost against latencies"), "plot('Cost against latency')"),
        (lambda: found.emit("compos"), "one of compose"),
        (lambda: found.emit("compose", rank=9), "rank=1"),
        (lambda: advisor.catalog.gpus(vendor="amd").plot(), "to_frame() holds its figures"),
        (lambda: advisor.catalog.gpus(vendor="amd").emit("compose"), "ask advisor.recommend(...) about"),
    ):
        with pytest.raises(AdvisorError) as raised:
            ask()
        assert fix in raised.value.fix


def test_records_are_tables_in_a_notebook() -> None:
    found = advisor.catalog.gpus(vendor="amd").accelerators
    assert "mi300x" in found._repr_html_()
    assert "<table" in found._repr_html_()
    hostile = api.Fields({"<b>": "<script>", "size": 0.25, "parts": ({"a": 1},)})
    page = hostile._repr_html_()
    assert "<script" not in page
    assert "<b>" not in page
    assert "0.25" in page
    assert "1 record<" in page


def test_the_types_are_those_of_the_options() -> None:
    path = ROOT / "tools" / "api_stub.py"
    spec = importlib.util.spec_from_file_location("api_stub", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "advisor" / "__init__.pyi").read_text(encoding="utf-8") == module.stub(), (
        "run python tools/api_stub.py"
    )


def missing_attributes(value: object, document: object, path: str) -> list[str]:
    """Return the paths of a document that the attributes of a result do not reach, or at which they differ."""
    if isinstance(document, dict):
        absent = [f"{path}.{name}" for name in document if not hasattr(value, name)]
        there = [name for name in document if hasattr(value, name)]
        inner = (missing_attributes(getattr(value, name), document[name], f"{path}.{name}") for name in there)
        return [*absent, *chain.from_iterable(inner)]
    if isinstance(document, list):
        pairs = enumerate(zip(value, document, strict=True))  # type: ignore[call-overload]
        return [*chain.from_iterable(missing_attributes(*pair, f"{path}[{at}]") for at, pair in pairs)]
    return [] if to_json(value) == document else [path]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("recommend", {"model": "8b", "rate": 5, "gpu": ["l40s", "h100"]}),
        ("recommend", {"workload": "train", "model": "1b", "tokens": "1B", "gpus": 8, "gpu": "h100-sxm"}),
        ("cost", {"model": "8b", "rate": 5, "gpu": "h100"}),
        ("simulate serve", {"model": "8b", "rate": 5, "gpu": "h100", "requests": 200}),
        ("simulate train", {"model": "8b", "gpu": "h100", "gpus": 8}),
        ("memory", {"model": "8b", "gpu": "h100"}),
    ],
)
def test_every_field_of_the_document_is_an_attribute(name: str, options: dict[str, object]) -> None:
    """Two answers do not name one thing in two ways: `ttft_s.p99` here and `ttft_s["p99"]` there."""
    result = call(name, (), options)
    document = result.to_dict()
    own = {key: document[key] for key in document if key in result.answer.result}
    assert len(own) > 3
    assert missing_attributes(result, own, name) == []


def test_records_of_a_result_keep_their_class_and_cannot_be_changed() -> None:
    option = call("recommend", (), {"model": "8b", "rate": 5, "gpu": "l40s"}).options[0]
    assert isinstance(option, Option)
    times = option.performance.ttft_s
    assert times.p99 is times["p99"]
    with pytest.raises(AttributeError):
        times.p99 = 0
    with pytest.raises(TypeError):
        times["p99"] = 0
    assert pickle.loads(pickle.dumps(option)) == option


@pytest.mark.parametrize("typed", ["8xh100", "H100:8", "8 x h100"])
def test_a_count_before_an_accelerator_counts_as_on_the_command_line(cli: Cli, typed: str) -> None:
    line = cli(f"advisor simulate collective --gpu '{typed}' --bytes 1MiB --json").document()
    called = call("simulate collective", (), {"gpu": typed, "bytes": "1MiB"}).to_dict()
    assert called["inputs"]["gpus"] == line["inputs"]["gpus"] == 8


@pytest.mark.parametrize("name", sorted(commands()))
def test_choices_are_taken_in_another_case_and_with_other_separators(name: str) -> None:
    for keyword in api.keywords_of(name).values():
        choices = get_args(keyword.kind) if get_origin(keyword.kind) is Literal else ()
        spelled = {drop_separators(each) for each in choices}
        for choice in choices if len(spelled) == len(choices) else ():
            for typed in (choice.upper(), choice.replace("_", "-"), choice.replace("-", " ")):
                assert api.value_of(keyword, typed) == choice


def test_a_choice_is_spelled_as_papers_do(cli: Cli) -> None:
    for typed in ("all-reduce", "AllReduce", "ALL_REDUCE"):
        assert "all_reduce of" in cli(f"advisor simulate collective --op {typed} --bytes 1MiB").out
    assert cli("advisor simulate collective --op all-reduces --bytes 1MiB").code == 2

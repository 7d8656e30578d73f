"""The job that parses printed commands with options of releases: what it reads, refuses and recorded."""

import csv
import importlib.util
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from advisor.catalog.engines import SUPPORT_FOLDER
from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch_options import check_command, launch_options
from advisor.emit.formats import Format, emit_files
from advisor.emit.operators import DYNAMO, RAY

TOOL = Path(__file__).parents[2] / "tools" / "parse_emitted_commands.py"
SOURCE = """
class FrontendArgs:
    lora_modules: list[str] | None = None
    disable_log: bool = False
    _secret: str = ""

class Other:
    not_an_option: str = ""

def add(parser, kwargs):
    parser.add_argument("--model-path", "--model", type=str)
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--eager", **kwargs["eager"])
    parser.add_argument(f"--{prefix}port", type=int)
"""


@pytest.fixture(scope="module")
def tool() -> Any:
    return load(TOOL)


@pytest.fixture(scope="module")
def questions() -> Any:
    return load(TOOL.with_name("emitted_commands.py"))


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_options_are_read_from_calls_and_from_fields_of_named_classes(tool: Any) -> None:
    found = list(tool.read_options(SOURCE, tool.OPTION_CLASSES["vllm"]))
    names = {name for option in found for name in option.names}
    assert names == {
        "--lora-modules",
        "--disable-log",
        "--model-path",
        "--model",
        "--quiet",
        "--eager",
        "--port",
    }
    parser = tool.parser_of(found)
    parser.parse_args(
        ["--model", "m", "--lora-modules", "a=b", "c=d", "--no-eager", "--port", "1", "--quiet"]
    )
    for words in (["--not-an-option", "x"], ["--model"], ["--quiet", "yes"], ["--mod", "m"]):
        with pytest.raises(tool.RefusedCommandError):
            parser.parse_args(words)


VALUES = """
from typing import Literal
Dtype = Literal["auto", "fp8"]
Method = Literal["ngram", Dtype]
BACKENDS = ["nixl", "mooncake"]

class Draft:
    method: Method | None = None
    tokens: int = 0

class OtherFrontendArgs:
    size: int | None = None

class Cache:
    dtype: Dtype = "auto"
    name: Dtype | str = "auto"
    draft: Draft | None = None

class MyFrontendArgs:
    policy: A[str, Arg(choices=BACKENDS)] = "nixl"

def add(parser):
    cache_kwargs = get_kwargs(Cache)
    parser.add_argument("--dtype", **cache_kwargs["dtype"])
    parser.add_argument("--name", **cache_kwargs["name"])
    parser.add_argument("--draft", **cache_kwargs["draft"])
    parser.add_argument("--backend", type=str, choices=BACKENDS)
"""


def test_values_are_refused_where_a_release_says_which_it_takes(tool: Any) -> None:
    known = tool.Declarations()
    known.add(VALUES)
    parser = tool.parser_of(tool.read_options(VALUES, tool.OPTION_CLASSES["vllm"], known), known)
    for text in (
        "--dtype fp8",
        "--name fp9",
        "--backend nixl",
        "--policy mooncake",
        "--size 8",
        '--draft {"method":"fp8","tokens":3}',
    ):
        parser.parse_args(text.split())
    for text in (
        "--dtype fp9",
        "--backend tcp",
        "--policy tcp",
        "--size None",
        '--draft {"method":"magic"}',
        '--draft {"methd":"ngram"}',
    ):
        with pytest.raises(tool.RefusedCommandError):
            parser.parse_args(text.split())


def test_generated_commands_cover_every_option_group(tool: Any) -> None:
    words = {word for command in tool.commands_of("vllm") for word in command}
    wanted = {
        "--nnodes",
        "--headless",
        "--hf-overrides",
        "--lora-modules",
        "--trust-remote-code",
        "--spec-method",
    }
    assert wanted | {"--kv-transfer-config", "--data-parallel-size", "--no-enable-prefix-caching"} <= words


def test_the_recorded_releases_hold_those_whose_options_are_printed_and_none_refuses() -> None:
    with (SUPPORT_FOLDER / "parsed_releases.csv").open() as file:
        rows = list(csv.DictReader(file))
    found = {(row["program"], row["release"]) for row in rows}
    assert {(name, launch_options()[name].release) for name in ("vllm", "sglang", "lmdeploy", "mlx")} <= found
    pinned = {("vllm", RAY.engines["vllm"]), *DYNAMO.engines.items()}
    # Dynamo's worker of TensorRT-LLM has options of its own, which are parsed in its files.
    assert pinned - {("tensorrt-llm", DYNAMO.engines["tensorrt-llm"])} <= found, (
        "the releases that stacks pin"
    )
    with (SUPPORT_FOLDER / "older_words.csv").open() as file:
        earlier = {
            (row["engine"], row[column]) for row in csv.DictReader(file) for column in ("absent", "present")
        }
    # The words of these two were read in their wheels, since no GPU is there to load a format.
    assert earlier - {("vllm", "0.19.1"), ("vllm", "0.20.0")} <= found
    assert all(row["refused"] == "0" and int(row["commands"]) > 0 for row in rows)


def test_commands_in_files_of_every_form_are_recorded_as_parsed() -> None:
    with (SUPPORT_FOLDER / "parsed_forms.csv").open() as file:
        rows = {row["form"]: row for row in csv.DictReader(file)}
    assert set(rows) == set(get_args(Format))
    assert int(rows["command"]["questions"]) >= 60
    assert all(
        row["refused"] == "0" and int(row["commands"]) >= int(row["questions"]) for row in rows.values()
    )


@pytest.mark.parametrize("place", range(0, 64, 9))
def test_commands_in_emitted_files_have_options_of_the_release(questions: Any, place: int) -> None:
    found = questions.option_of(list(questions.questions())[place])
    if found is None:
        pytest.skip("no option answers the question")
    for form in get_args(Format):
        try:
            files = emit_files(*found, form)
        except AdvisorError:
            continue  # The form has no way to start this plan.
        commands = list(questions.commands_in(files))
        assert commands, form
        for one in commands:
            check_command(one.program, (one.program, *one.words), one.release)

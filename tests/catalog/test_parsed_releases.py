"""The job that parses printed commands with options of releases: what it reads, refuses and recorded."""

import csv
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.engines import SUPPORT_FOLDER
from advisor.catalog.launch_options import launch_options

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
    spec = importlib.util.spec_from_file_location("parse_emitted_commands", TOOL)
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


def test_the_recorded_releases_are_those_whose_options_are_printed_and_none_refuses() -> None:
    with (SUPPORT_FOLDER / "parsed_releases.csv").open() as file:
        rows = {row["program"]: row for row in csv.DictReader(file)}
    assert {"vllm", "sglang"} <= rows.keys()
    for name, row in rows.items():
        assert row["release"] == launch_options()[name].release
        assert row["refused"] == "0"
        assert int(row["commands"]) > 0

"""One question has one answer at every door: the command line, Python, HTTP and the tools of agents give equal JSON.

The questions are the lines of tools/corpus_installed.txt, one or two for each command that a service answers.
"""

import asyncio
import json
import runpy
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from advisor import api
from advisor.catalog.errors import AdvisorError
from advisor.cli.keywords import command_of
from advisor.service.questions import keywords_for, questions, schema_of

for _package in ("starlette", "httpx", "mcp", "jsonschema"):
    pytest.importorskip(_package)

ROOT = Path(__file__).resolve().parents[3]
CORPUS = runpy.run_path(str(ROOT / "tools" / "corpus.py"))
DAY = "2026-11-20"
TWICE = ("recommend", "simulate serve")
PLAN = (
    "recommend --model 8b --rate {rate} --gpu l40s --engine vllm --top 1 --fast --plan {file} -q --as-of "
    + DAY
)


@dataclass(frozen=True)
class Question:
    """A line of the corpus: a command and its words."""

    name: str
    words: tuple[str, ...]

    @property
    def line(self) -> str:
        return shlex.join(("advisor", *self.name.split(), *self.words, "--json", "--offline", "--as-of", DAY))


def corpus() -> Iterator[Question]:
    """Yield the first lines of the corpus for each command, and every mistake."""
    count: dict[str, int] = {}
    longest_first = sorted(questions(), key=len, reverse=True)
    for line in (ROOT / "tools" / "corpus_installed.txt").read_text(encoding="utf-8").splitlines():
        words = shlex.split(line) if line and not line.startswith("#") else []
        name = next((each for each in longest_first if words[: len(each.split())] == each.split()), None)
        if name is None or not writes_nothing(name, words):
            continue
        count[name] = count.get(name, 0) + 1
        is_mistake = any(word in ("nope-7b", "nobody", "h101") for word in words)
        if count[name] <= 1 + (name in TWICE) or is_mistake:
            yield Question(name, tuple(words[len(name.split()) :]))


def writes_nothing(name: str, words: list[str]) -> bool:
    """Whether every option of a line is a keyword of a service, which has none that writes a file."""
    known = {each.option for each in keywords_for(name).values()}
    return all(positive(word) in known for word in words if word.startswith("-"))


def positive(option: str) -> str:
    """The flag that a negative one denies."""
    return option.replace("--no-", "--", 1)


QUESTIONS = tuple(corpus())


def keywords(question: Question) -> dict[str, Any]:
    """The words of a command line as keywords: texts as typed, True for flags, False for denied ones."""
    known = keywords_for(question.name)
    by_option = {each.option: word for word, each in known.items()}
    places = iter([word for word, each in known.items() if not each.option.startswith("--")])
    words = iter(question.words)
    found: dict[str, Any] = {}
    place = ""
    for word in words:
        if not word.startswith("--"):
            place = next(places, place)
            is_list = str(known[place].kind).startswith("list")
            found[place] = [*found.get(place, []), word] if is_list else word
            continue
        name = by_option[positive(word)]
        value: Any = word == positive(word) if known[name].kind is bool else next(words)
        found[name] = [*found[name], value] if isinstance(found.get(name), list) else value
        if str(known[name].kind).startswith("list") and not isinstance(found[name], list):
            found[name] = [value]
    return found


def with_contents(question: Question, asked: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The keywords of a service: the content of a file in place of its name."""
    known = keywords_for(question.name)

    def content(value: Any) -> Any:
        if isinstance(value, list):
            return [content(each) for each in value]
        file = folder / value
        return {"name": value, "text": file.read_text()} if file.is_file() else value

    return {
        word: content(value) if known[word].kind in (Path, list[Path]) else value
        for word, value in asked.items()
    }


def timeless(document: Any) -> Any:
    if isinstance(document, dict):
        return {name: timeless(value) for name, value in document.items() if not name.endswith("wall_s")}
    return [timeless(each) for each in document] if isinstance(document, list) else document


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that questions name, but for plans."""
    found = tmp_path_factory.mktemp("doors")
    CORPUS["copy_files"](found)
    return found


@pytest.fixture(scope="module")
def folder(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files, with two plans that questions name."""
    from advisor.__main__ import main

    found = tmp_path_factory.mktemp("with-plans") / "files"
    shutil.copytree(files, found)
    for rate, name in ((5, "one.json"), (9, "two.json")):
        assert main(shlex.split(PLAN.format(rate=rate, file=found / name))) == 0
    return found


@pytest.fixture(scope="module")
def served(folder: Path) -> dict[Question, tuple[int, Any, Any]]:
    """Status and JSON over HTTP, and the result of the tool, of every question: one worker answers all."""
    import httpx
    from mcp import Client

    from advisor.service.agents import server_of, tool_name
    from advisor.service.http import application, path_of
    from advisor.service.pool import WorkerPool

    async def ask_all() -> dict[Question, tuple[int, Any, Any]]:
        pool = WorkerPool(1, 300.0)
        door = httpx.ASGITransport(application(pool, most_bytes=10_000_000, hosts=frozenset({"advisor"})))
        found = {}
        async with (
            httpx.AsyncClient(transport=door, base_url="http://advisor", timeout=None) as client,
            Client(server_of(pool, questions())) as agent,
        ):
            for question in QUESTIONS:
                body = {**with_contents(question, keywords(question), folder), "as_of": DAY}
                reply = await client.post(path_of(question.name), json=body)
                result = await agent.call_tool(tool_name(question.name), body)
                found[question] = reply.status_code, reply.json(), result
        await pool.close()
        return found

    return asyncio.run(ask_all())


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: shlex.join((each.name, *each.words)))
def test_every_door_gives_the_same_json(
    question: Question,
    served: Mapping[Question, tuple[int, Any, Any]],
    folder: Path,
    cli: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    status, told, result = served[question]
    run = cli(question.line)
    if list(json.loads(run.out)) == ["error"]:
        assert json.loads(run.out) == told
        assert 400 <= status < 500
        assert told["error"]["exit_code"] == run.code
        assert f"error: {told['error']['what']}" in run.err
        assert result.is_error
        assert result.structured_content == told
        with pytest.raises(AdvisorError) as raised:
            api.call(question.name, (), {**keywords(question), "as_of": DAY, "offline": True})
        assert raised.value.what == told["error"]["what"]
        return
    printed = timeless(json.loads(run.out))
    python = api.call(question.name, (), {**keywords(question), "as_of": DAY, "offline": True})
    assert timeless(json.loads(json.dumps(python.to_dict()))) == printed
    assert status == 200
    assert timeless(told) == printed
    assert not result.is_error
    assert timeless(result.structured_content) == printed
    assert result.content[0].text.strip()


def test_every_question_is_asked() -> None:
    assert {question.name for question in QUESTIONS} | {"replay", "compare", "calibrate"} >= set(questions())


@pytest.mark.parametrize("name", questions())
def test_the_schema_takes_what_the_command_takes(name: str, files: Path) -> None:
    """Each schema is one, says every keyword and its meaning, and accepts the questions of the corpus."""
    import jsonschema

    schema = schema_of(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert all(each["description"] for each in schema["properties"].values())
    assert not {"output", "emit_dir", "records", "predictions", "offline"} & set(schema["properties"])
    for question in QUESTIONS:
        if question.name == name:
            jsonschema.validate(with_contents(question, keywords(question), files), schema)
    assert command_of(name).inputs.__doc__

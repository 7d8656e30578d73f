"""One question has one answer, whether `recommend`, `cost`, `sweep`, `replay` or the Python API is asked."""

import csv
import html
import json
import math
import re
import shlex
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from asking import Reply, ask, leaves, timeless
from questions import DAYS, Question, Row, generate_questions

from advisor.catalog.errors import AdvisorError

ABOUT_THE_TAKE = ("machine", "layout", "offer", "bill", "performance")
MARKET = (
    Row("acme", "l40s", 1, 0.95),
    Row("bolt", "l40s", 8, 6.4, DAYS[2]),
    Row("acme", "h100-sxm", 1, 2.9, DAYS[3], "tracker"),
    Row("crest", "h100-sxm", 8, 17.6),
)
SMALL = Question(MARKET, "8b", 6.0, ("l40s", "h100-sxm"), "--engine vllm")
PLAIN = "--model 8b --gpu l40s --engine vllm --precision fp8 --levers none"
ASKED_OF_BOTH = [
    "--model 8b --rate 3 --gpu l40s,h100-sxm --engine vllm --levers none",
    f"{PLAIN} --rate 3 --redundancy n+1",
    f"{PLAIN} --rate 3 --storage-tb 2 --egress-tb 3",
    f"{PLAIN} --rate 9 --headroom 0.4 --e2e-p99 20s",
    f"{PLAIN} --concurrency 40",
    f"{PLAIN} --rate 3 --term spot,on-demand",
    "--model 70b --rate 5 --gpu b200",  # cost took a price 186 days old without its spread
    "--model 70b --rate 30 --gpu b200,h200 --engine vllm",
]


def check_alike(one: Any, other: Any, where: str) -> None:
    """Two records have the same leaves; numbers may differ by 1e-9 of their value."""
    left = dict(leaves(one))
    right = dict(leaves(other))
    for path in [*left, *(path for path in right if path not in left)]:
        a = left.get(path)
        b = right.get(path)
        if isinstance(a, int | float) and isinstance(b, int | float):
            assert math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12), f"{where}.{path}: {a} and {b}"
        else:
            assert a == b, f"{where}.{path}: {a} and {b}"


def check_same_options(recommended: Reply, costed: Reply) -> None:
    """`cost` shows each accelerator as `recommend` does: offer, layout, bill and performance."""
    assert recommended.code == costed.code
    if recommended.code:
        return
    costs: dict[str, dict[str, Any]] = {}
    for option in costed.options:
        costs.setdefault(option["machine"]["accelerator"], option)
    names = [option["machine"]["accelerator"] for option in recommended.options]
    assert list(costs)[: len(names)] == names
    for option in recommended.options:
        for part in ABOUT_THE_TAKE:
            accelerator = option["machine"]["accelerator"]
            check_alike(option[part], costs[accelerator][part], f"{accelerator}.{part}")


@pytest.mark.parametrize("words", ASKED_OF_BOTH)
def test_recommend_and_cost_agree(words: str) -> None:
    check_same_options(ask(f"recommend {words}"), ask(f"cost {words} --api none"))


@pytest.mark.parametrize(
    "words",
    [
        "--model gpt-oss-120b --budget 5/h --gpu gh200-96gb,b200-sxm --engine vllm --levers none",
        "--model 8b --rate 30 --gpu l40s,h100-sxm,b200-sxm --engine vllm --levers none",
        "--model mistral-7b --concurrency 40 --gpu l40s,a100-sxm-80gb,l4 --engine vllm --levers none",
    ],
)
def test_a_sentence_compares_the_first_option_with_every_other(words: str) -> None:
    found = ask(f"recommend {words}", as_json=False)
    sentences = [part for part in found.out.split("\n\n") if "safe pick" in part]
    costed = ask(f"cost {words} --api none", as_json=False)
    assert costed.code or [part for part in costed.out.split("\n\n") if "safe pick" in part] == sentences
    assert len(sentences) == 1
    for option in ask(f"recommend {words}").options[1:]:
        assert re.search(rf"\b{option['rank']}\b(?! %)", sentences[0]), sentences


@generate_questions
def test_recommend_and_cost_agree_on_generated_markets(question: Question) -> None:
    check_same_options(ask(question.words()), ask(question.words("cost")))


def test_a_sweep_asks_the_same_question(tmp_path: Path) -> None:
    words = shlex.split(SMALL.words())[1:]
    options = dict(zip(words[::2], words[1::2], strict=True))
    rates = [float(options.pop("--rate")), 2.0]
    options["--as-of"] = "2026-11-20"
    base = "\n".join(
        f"{name[2:].replace('-', '_')} = {value if value.isdecimal() else json.dumps(value)}"
        for name, value in options.items()
    )
    study = tmp_path / "study.toml"
    study.write_text(f'command = "recommend"\n[base]\n{base}\n[grid]\nrate = {rates}\n', encoding="utf-8")
    table = tmp_path / "results.csv"
    swept = ask(f"sweep {shlex.quote(str(study))} --workers 1 -q -o {shlex.quote(str(table))}", as_json=False)
    assert swept.code == 0, swept.err
    with table.open(encoding="utf-8") as file:
        rows = {float(row["in_rate"]): row for row in csv.DictReader(file)}
    for rate in rates:
        first = ask(SMALL.words(load=f"--rate {rate:g}")).first
        row = rows[rate]
        for name in (
            "machine_accelerator",
            "layout_engine",
            "layout_weight_dtype",
            "offer_provider",
            "offer_sku",
        ):
            part, field = name.split("_", 1)
            assert row[f"options_{name}"] == first[part][field]
        for name in (
            "machine_num_accelerators",
            "layout_num_replicas",
            "layout_tensor_parallel",
            "bill_usd_per_hour",
        ):
            part, field = name.split("_", 1)
            assert float(row[f"options_{name}"]) == first[part][field]
        for field in ("usd_per_million_tokens", "expected_usd_per_million_tokens", "chance"):
            shown = first["performance"][field]
            value = shown["value"] if isinstance(shown, dict) else shown
            assert math.isclose(float(row[f"options_performance_{field}"]), value, rel_tol=1e-9)


@pytest.mark.parametrize(
    "words",
    [
        f"recommend {PLAIN} --rate 3",
        f"recommend {PLAIN} --rate 3 --seed 7",
        "recommend --model 8b --own 2xl40s --rate 4 --engine vllm --precision fp8 --levers none",
    ],
)
def test_a_replay_writes_the_same_bytes(words: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    asked = ask(f"{words} --plan {plan}")
    before = plan.read_bytes()
    replayed = ask(f"replay {plan}")
    assert replayed.code == 0, replayed.err
    assert timeless(replayed.document) == timeless(asked.document)
    again = tmp_path / "again.json"
    assert ask(f"replay {plan} --plan {again} --explain").code == 0
    assert again.read_bytes() == before


def check_formats(words: str) -> None:
    """The text, the page and the Markdown file have the headline of the document, and the bill of each option."""
    answer = ask(words)
    if answer.code:
        return
    told = [ask(words, as_json=False).out]
    with TemporaryDirectory() as folder:
        for name in ("answer.html", "answer.md"):
            path = Path(folder) / name
            assert ask(f"{words} -q -o {path}", as_json=False).code == 0
            told.append(html.unescape(path.read_text(encoding="utf-8")))
    bills = [f"${option['bill']['usd_per_hour']:,.2f}" for option in answer.options]
    for text in told:
        plain = re.sub(r"\s+", " ", re.sub(r"<[^>]+>|\\\\", "", text))
        assert re.sub(r"\s+", " ", answer.document["headline"]) in plain
        for bill in bills:
            assert bill in plain, f"{bill} of {words}"


@pytest.mark.parametrize("words", [f"recommend {PLAIN} --rate 3", SMALL.words()])
def test_every_format_tells_the_same(words: str) -> None:
    check_formats(words)


@generate_questions
def test_every_format_of_a_generated_answer_tells_the_same(question: Question) -> None:
    check_formats(question.words())


def test_python_tells_what_the_command_tells() -> None:
    import advisor

    if not hasattr(advisor, "recommend"):
        pytest.skip("the package has no functions yet")
    result = advisor.recommend(
        model="8b", rate=3, gpu="l40s,h100-sxm", engine="vllm", top=3, as_of="2026-11-20", offline=True
    )
    told = ask("recommend --model 8b --rate 3 --gpu l40s,h100-sxm --engine vllm --top 3").document
    assert timeless(json.loads(json.dumps(result.to_dict()))) == timeless(told)
    first = result.options[0]
    assert first.bill.usd_per_hour == told["options"][0]["bill"]["usd_per_hour"]
    costed = advisor.cost(model="8b", rate=3, gpu="l40s", engine="vllm", as_of="2026-11-20", offline=True)
    told = ask("cost --model 8b --rate 3 --gpu l40s --engine vllm").document
    assert timeless(json.loads(json.dumps(costed.to_dict()))) == timeless(told)


@pytest.mark.parametrize("command", ["recommend", "cost"])
def test_a_question_in_words_is_a_keyword_too(command: str) -> None:
    """A sentence asks in Python what it asks in a terminal, and typed options count first in both."""
    import advisor

    sentence = "llama 8b at 3 requests per second on l40s"
    function = {"recommend": advisor.recommend, "cost": advisor.cost}[command]
    result = function(
        question=sentence, engine="vllm", precision="fp8", rate=2, as_of="2026-11-20", offline=True
    )
    told = ask(f"{command} '{sentence}' --engine vllm --precision fp8 --rate 2").document
    assert timeless(json.loads(json.dumps(result.to_dict()))) == timeless(told)


def test_a_far_name_is_no_fix() -> None:
    import advisor

    for word, fix in (("rates", "rate=..."), ("request", "help(advisor.recommend) lists what it takes")):
        with pytest.raises(AdvisorError) as refused:
            advisor.recommend(model="8b", **{word: 3})
        assert refused.value.fix == fix


def test_a_ladder_takes_for_each_load_what_is_taken_for_it_alone() -> None:
    """The same machine from the same offer for the same bill; of layouts that cost the same, either may be taken."""
    ladder = ask(SMALL.words(load="--rate 2,6")).document["ladder"]
    assert [rung["rate_per_s"] for rung in ladder] == [2.0, 6.0]
    for rung in ladder:
        alone = ask(SMALL.words(load=f"--rate {rung['rate_per_s']:g}")).first
        for part in ("machine", "offer"):
            check_alike(rung["option"][part], alone[part], part)
        taken = rung["option"]
        assert math.isclose(taken["bill"]["usd_per_hour"], alone["bill"]["usd_per_hour"], rel_tol=1e-9)
        expected = [each["performance"]["expected_usd_per_million_tokens"] for each in (taken, alone)]
        assert math.isclose(*expected, rel_tol=1e-9)

"""Questions typed as sentences: what they say becomes options, and what is not understood is named."""

import datetime
from collections.abc import Callable
from typing import Any

import pytest

from advisor.catalog.errors import AdvisorError
from advisor.cli.sentence import options_of_sentence

Cli = Callable[[str], Any]


def understand(text: str) -> dict[str, str]:
    options, _ = options_of_sentence(text)
    return dict(zip(options[::2], options[1::2], strict=True))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a chatbot for 1,000 users", {"--use-case": "chatbot", "--users": "1,000"}),
        ("Ein Chatbot für 2000 Mitarbeiter", {"--use-case": "chatbot", "--users": "2000"}),
        ("coding assistant for 40 developers", {"--use-case": "code", "--users": "40"}),
        ("un assistant de code pour 25 développeurs", {"--use-case": "code", "--users": "25"}),
        ("RAG over 50k pages", {"--use-case": "rag"}),
        ("voice agent under 500 ms", {"--use-case": "voice", "--ttft-p99": "500 ms"}),
        ("100k requests per day for rag", {"--use-case": "rag", "--rate": "100000/day"}),
        (
            "translate 500k product descriptions in 12 hours",
            {"--workload": "batch", "--items": "500k", "--deadline": "12 hours"},
        ),
        (
            "chatbot for 200 employees, budget 3000 $/month",
            {"--use-case": "chatbot", "--users": "200", "--budget": "3000 $/month"},
        ),
        ("5 USD/h for coding", {"--use-case": "code", "--budget": "5 usd/h"}),
        ("fine-tune a 7B on 20k examples", {"--workload": "finetune", "--model": "7b"}),
        ("what runs on 2x RTX 4090", {"--own": "2xrtx-4090"}),
        ("what runs on my RTX 4090?", {"--own": "1xrtx-4090"}),
        (
            "chat with Qwen3 32B on an H100 for 20 users",
            {"--use-case": "chatbot", "--users": "20", "--model": "qwen3-32b", "--gpu": "h100-sxm"},
        ),
        ("llama 70b for 50 concurrent users", {"--model": "70b", "--concurrency": "50"}),
        ("qwen3-8b at 5 req/s", {"--model": "qwen3-8b", "--rate": "5/second"}),
        ("summarise 3M contracts overnight", {"--workload": "batch", "--items": "3m", "--deadline": "12h"}),
        ("qwen3-8b with 32k context", {"--model": "qwen3-8b", "--max-context": "32k"}),
        (
            "lora of an 8b on 2x L40S",
            {"--workload": "finetune", "--method": "lora", "--own": "2xl40s", "--model": "8b"},
        ),
        ("qwen3-32b at Q4 on a 5090", {"--model": "qwen3-32b", "--precision": "q4_k_m", "--gpu": "rtx-5090"}),
        ("chat on H100 or H200", {"--use-case": "chatbot", "--gpu": "h100-sxm,h200-sxm"}),
        ("chat, 2x 3090 and 1x 4090", {"--use-case": "chatbot", "--own": "2xrtx-3090,1xrtx-4090"}),
        ("code on minimax m2.5", {"--use-case": "code", "--model": "minimax-m2.5"}),
    ],
)
def test_a_sentence_is_the_options_that_it_states(text: str, options: dict[str, str]) -> None:
    assert understand(text) == options
    assert understand(text.upper()) == options


@pytest.mark.parametrize("name", ["RTX 4090", "H100", "L40S", "MI300X", "4090"])
def test_accelerators_count_wherever_and_however_they_stand(name: str) -> None:
    two = understand(f"chat on 2x {name}")
    for text in (
        "I have 2 {0}s, chat",
        "chat with two {0}",
        "chat on dual {0} GPUs",
        "chat, {0} x2",
        "2 × {0}: chat",
    ):
        assert understand(text.format(name)) == two, text
    one = understand(f"chat on my {name}")
    assert one == {**two, "--own": two["--own"].replace("2x", "1x")}
    for text in ("I own a {0}, chat", "chat on a single {0}", "chat with our {0}?"):
        assert understand(text.format(name)) == one, text
    for text in ("chat on a {0}", "chat on {0}s"):
        assert understand(text.format(name)) == {"--use-case": "chatbot", "--gpu": two["--own"][2:]}, text


@pytest.mark.parametrize(
    "money", ["2000 EUR per month", "€2000/month", "£5 an hour", "$10,000", "budget 3000"]
)
def test_money_that_is_no_dollars_per_time_is_refused_with_what_to_type(money: str) -> None:
    with pytest.raises(AdvisorError) as refused:
        options_of_sentence(f"a chatbot for 200 users, {money}")
    assert "--budget" in refused.value.fix


def test_a_day_of_the_week_is_its_next_one() -> None:
    day = datetime.date.today() + datetime.timedelta(days=3)
    assert understand(f"summarise 2 million documents by {day:%A}")["--deadline"] == "3d"
    today = datetime.date.today()
    assert understand(f"summarise 2 million documents by {today:%A}")["--deadline"] == "7d"


def test_what_is_not_understood_is_named_and_nothing_at_all_is_refused() -> None:
    _, notes = options_of_sentence("RAG over 50k pages")
    assert "50k pages" in notes[-1]
    with pytest.raises(AdvisorError, match="not understood") as refused:
        options_of_sentence("hello world")
    assert "--use-case" in refused.value.fix


def test_a_sentence_is_answered_as_its_options_and_typed_ones_count_first(cli: Cli) -> None:
    asked = "advisor recommend --model 8b --gpu h100-sxm --fast --json"
    said = cli(f"{asked} a chatbot for 1M users").document()
    for quoted in (f"{asked} 'a chatbot for 1M users'", f"{asked} 'A chatbot for 1M users?' --top 5"):
        assert cli(quoted).document()["inputs"] == said["inputs"]
    assert said["inputs"] == cli(f"{asked} --use-case chatbot --users 1M").document()["inputs"]
    assert cli(f"{asked} 'a chatbot for 1M users'").document()["inputs"] == said["inputs"]
    assert cli("advisor recommend nonsense").code == 2
    assert "not understood" in cli("advisor recommend 'hello there'").err

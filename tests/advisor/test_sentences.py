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
    ],
)
def test_a_sentence_is_the_options_that_it_states(text: str, options: dict[str, str]) -> None:
    assert understand(text) == options
    assert understand(text.upper()) == options


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
    assert said["inputs"] == cli(f"{asked} --use-case chatbot --users 1M").document()["inputs"]
    assert cli(f"{asked} 'a chatbot for 1M users'").document()["inputs"] == said["inputs"]
    assert cli("advisor recommend nonsense").code == 2
    assert "not understood" in cli("advisor recommend 'hello there'").err

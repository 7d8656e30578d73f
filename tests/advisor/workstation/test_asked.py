"""Words of a list about its use: the model, the format, and the questions that the answer begins with."""

from pathlib import Path
from typing import Final

import pytest

from advisor.catalog import models
from advisor.catalog.part_prices import price_book
from advisor.commands.build.run import is_list_text
from advisor.commands.build.verdict_view import price_reply
from advisor.workstation.asked import (
    format_in,
    larger_in,
    models_in,
    questions_in,
    streams_in,
    usual_model,
    window_in,
)
from advisor.workstation.assembly import Circuit
from advisor.workstation.listing import read_listings
from advisor.workstation.performance import MachineLoad
from advisor.workstation.plan import Question
from advisor.workstation.verdict import judge_listing

BOOK = price_book()


@pytest.mark.parametrize(
    ("text", "model", "weights"),
    [
        ("which one for llama 3.3 70b q8?", "llama 3.3 70b q8", "q8_0"),
        ("Can it run 32B models?", "32B", None),
        ("want to run ollama with 30b models", "30b", None),
        ("für Qwen3 32B lokal, Q4_K_M", "Qwen3 32B", "q4_k_m"),
        ("gpt-oss 120b in fp16", "gpt-oss 120b", "fp16"),
        ("With Flux.1 dev I get out of memory", "Flux.1 dev", None),
        ("Is it fast for SDXL?", "SDXL", None),
        ("2x RTX 3090 24GB, B550 Tomahawk, Samsung 990 Pro 2TB", "", None),
    ],
)
def test_the_model_of_a_list_is_the_one_that_its_words_name(
    text: str, model: str, weights: str | None
) -> None:
    assert models_in(text) == ((model,) if model else ())
    assert format_in(text) == weights


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("ok for qwen3 32b? what about llama 70b?", ("qwen3 32b", "llama 70b")),
        ("a 7b now, a 14b later", ("7b", "14b")),
        ("Llama 3.3 70B for chat, so a 70b", ("Llama 3.3 70B",)),
        ("qwen3 32b or another 32b", ("qwen3 32b",)),
    ],
)
def test_models_of_other_sizes_are_models_of_their_own(text: str, names: tuple[str, ...]) -> None:
    assert models_in(text) == names


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("is 750 W enough for a 5090 with a 9800X3D?", ("supply",)),
        ("Reicht das Netzteil für zwei Karten?", ("supply",)),
        ("RTX 4090, 64GB. Can it run 32B models?", ("model",)),
        ("Will my 850W PSU handle two 3090s, and can they run llama 3.3 70b?", ("supply", "model")),
        ("850W PSU, RTX 3090. Any thoughts?", ()),
    ],
)
def test_questions_are_known_by_their_sentences(text: str, asked: tuple[str, ...]) -> None:
    assert questions_in(text) == asked


@pytest.mark.parametrize(
    ("text", "is_text"),
    [
        ("is 750 W enough for a 5090", True),
        ("Mac Studio M2 Ultra 192GB $3400", True),
        ("RTX 3090, Ryzen 5 5600, " * 20, True),
        ("my list.txt", False),
        ("list.toml", False),
    ],
)
def test_words_that_name_parts_are_no_path(text: str, is_text: bool) -> None:
    assert is_list_text(Path(text)) == is_text


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("2x RTX 3090", "70b"),
        ("RTX 3090", "32b"),
        ("RTX 4060 Ti 16GB", "8b"),
        ("Mac Studio M2 Ultra 192GB", "70b"),
    ],
)
def test_a_list_that_names_no_model_is_judged_by_the_largest_that_its_cards_hold(
    text: str, model: str
) -> None:
    assert usual_model([listing for _, listing in read_listings(None, BOOK, pasted=text)]) == model


@pytest.mark.parametrize(
    ("text", "num_tokens"),
    [("with 128K context", 131_072), ("a ctx of any size", 0), ("32,000 tokens of context", 32_000)],
)
def test_a_window_is_read_in_tokens(text: str, num_tokens: int) -> None:
    assert window_in(text) == num_tokens


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("Mistral Large 123B in 4 bit, will it work?", "mistral-large-2"),
        ("Command A 111B", "command-a"),
        ("Mistral Large 2", "mistral-large-2"),
    ],
)
def test_a_size_behind_a_name_is_that_of_the_model(text: str, model: str) -> None:
    assert [models.get(name).record.id for name in models_in(text)] == [model]


def test_another_size_behind_a_name_is_another_model() -> None:
    assert "Mistral Large" not in models_in("Mistral Large 70B")


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("RTX 3090 over OCuLink. Will the 4 lanes hurt me with Qwen3 14B?", "lanes"),
        ("2x RTX 5060 Ti on B850. Is x8/x8 a problem?", "lanes"),
        ("How much do I lose over TB4 with a 32B model?", "lanes"),
        ("RTX 5090, HX1200. Is the adapter safe?", "adapter"),
        ("Do I need a native 12VHPWR cable?", "adapter"),
    ],
)
def test_questions_about_links_and_adapters_are_heard(text: str, asked: str) -> None:
    assert asked in questions_in(text)
    assert asked not in questions_in(text.replace("?", "."))


@pytest.mark.parametrize(
    "question",
    [
        "¿Me llega la fuente?",
        "Langt das Netzteil?",
        "Will my power supply do?",
        "потянет ли бп?",
        "Is 650 W enough?",
        "Хватит ли 650 Вт?",
    ],
)
def test_a_question_that_names_the_supply_is_answered(question: str) -> None:
    assert questions_in(question) == ("supply",)
    assert questions_in("Is 450 W too hot?") == ()


@pytest.mark.parametrize(
    "question", ["gpt-oss-20bは動きますか？", "qwen3-32b能跑吗？", "llama3.3:70b 될까요?"]
)
def test_a_model_is_found_in_any_script(question: str) -> None:
    assert questions_in(question) == ("model",)
    assert len(models_in(question)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "My MI50 box keeps rebooting with tensor parallel 4, what's wrong?",
        "Why does my 4x RTX 3090 rig shut down under load?",
        "Warum stürzt meine Kiste unter Last ab?",
        "¿Por qué se apaga mi equipo?",
        "Почему компьютер выключается под нагрузкой?",
        "两张3090一跑模型就重启,怎么回事?",
    ],
)
def test_a_machine_that_switches_off_is_a_question_for_its_supply(text: str) -> None:
    assert "supply" in questions_in(text)


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Netzteil: 850 W\nDazu kommt eine RTX 3090 Ti. Reicht das?", False),
        ("The supply has 900 W. Is that enough?", True),
        ("2x RTX 3090\nCorsair HX1200 1200W\nIs that enough?", True),
    ],
)
def test_a_pronoun_stands_for_the_sentence_ahead_of_it(text: str, asks: bool) -> None:
    assert ("supply" in questions_in(text)) == asks


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Is $850 a fair price for a used RTX 3090?", "price"),
        ("RTX 3090 $1100. Is that overpriced?", "price"),
        ("2x RTX 3090 for $1,500, good deal or not?", "price"),
        ("Will four RTX 3090s trip a 15A breaker?", "circuit"),
        ("Can I run two RTX 5090s on a regular US outlet?", "circuit"),
        ("EVO-X2 128GB. Is it worth it for a 27B?", "worth"),
        ("Would this T630 take both cards?", "fit"),
        ("Lenovo P520, RTX 3090 FE. Will it work?", "fit"),
        ("Can I run two RTX 5080s on a Corsair RM1000x?", "supply"),
        ("Will a 4090 be fine with my HX850i?", "supply"),
    ],
)
def test_what_a_sentence_asks_is_answered(text: str, asked: str) -> None:
    assert asked in questions_in(text)


@pytest.mark.parametrize(
    ("words", "num"),
    [
        ("for a team of 6", 6),
        ("for five developers", 5),
        ("10 concurrent users", 10),
        ("a family of four", 4),
        ("for one user", 1),
        ("for local LLMs", 1),
        ("people say it is slow", 1),
    ],
)
def test_people_who_share_a_machine_are_its_streams(words: str, num: int) -> None:
    assert streams_in(f"2x RTX 3090, Ryzen 9 5950X, 64GB DDR4. gpt-oss-120b {words}.") == num


@pytest.mark.parametrize(
    ("words", "larger"),
    [
        ("go beyond 14B models", "32b"),
        ("larger than 8B", "14b"),
        ("have something bigger than a 32B", "70b"),
        ("more than Qwen3 32B", "70b"),
        ("run 14B models", ""),
    ],
)
def test_a_model_to_exceed_is_not_the_one_that_is_wanted(words: str, larger: str) -> None:
    assert larger_in(f"RTX 3060 12GB. I want to {words}.") == larger


@pytest.mark.parametrize(
    ("words", "circuit"),
    [
        ("on a 15A breaker", Circuit(120.0, 15.0)),
        ("on a 20 amp circuit", None),
        ("from a regular US outlet", Circuit(120.0, 15.0)),
        ("from a UK socket", Circuit(230.0, 13.0)),
        ("on a 13A plug", Circuit(230.0, 13.0)),
        ("an einer Schuko", Circuit(230.0, 16.0)),
        ("in my office", None),
    ],
)
def test_an_outlet_is_known_by_its_amperes_or_its_country(words: str, circuit: Circuit | None) -> None:
    (_, listing), *_ = read_listings(None, BOOK, pasted=f"2x RTX 4090, Ryzen 9 7950X, 1600W PSU {words}")
    assert listing.circuit == circuit


OWNED = "Ryzen 5 5600X, B550 Tomahawk, 32GB DDR4-3600, RTX 3060 12GB, RM750x"
PURSES = [
    "I have {rig} and $900. What should I upgrade first?",
    "{rig}. I've got $900 for a new GPU, which one for 32B?",
    "My rig: {rig}. I can spend up to €900. What's the best upgrade for LLMs?",
    "Budget is $900. I own {rig}. What would you upgrade?",
    "{rig}. Willing to put another 900 dollars into it - what gives the most for 70B models?",
    "{rig}. Max $900. Which card should I add for larger models?",
    "I have 900 bucks and this machine: {rig}. How do I get to 32B models?",
    "{rig}. What card should I buy for Qwen3 32B with $900?",
    "{rig}. £900 to spend on it. Where do I start?",
]


@pytest.mark.parametrize("text", PURSES)
def test_money_of_a_question_for_parts_is_the_price_of_none(text: str) -> None:
    (_, found), *others = read_listings(None, BOOK, pasted=text.format(rig=OWNED))
    assert not others
    assert found.upgrade_usd == 900.0
    assert found.total_usd == 0.0
    assert not found.unknown
    assert found.machine.cards is not None
    assert found.machine.supplies is not None


@pytest.mark.parametrize(
    "text",
    [
        f"{OWNED.replace('12GB', '12GB for $250')}. What should I check first?",
        f"{OWNED.replace('RTX', '$250 RTX')}. Which case?",
        f"{OWNED}. Total $900. What do you think?",
    ],
)
def test_a_price_beside_a_part_or_of_all_is_no_money_to_spend(text: str) -> None:
    (_, found), *_ = read_listings(None, BOOK, pasted=text)
    assert not found.upgrade_usd


_AT: Final = (
    "{0} or {1} at Q8",
    "{0} vs {1} in q8_0?",
    "run {0}, or Q8 {1}?",
    "{0}? {1} at 8 bit?",
    "a {0} and a Q8 quant of {1}",
)
_BOTH: Final = (
    "{0} or {1}, both at Q8",
    "Q8 for both: {0} or {1}",
    "I use Q8 only. Does it run {0} or {1}?",
)
_PAIRS: Final = (("Llama 3.3 70B", "Qwen3 32B"), ("32b", "70b"), ("qwen3 14b", "gpt-oss 120b"))


@pytest.mark.parametrize("names", _PAIRS)
@pytest.mark.parametrize("form", _AT)
def test_a_format_is_that_of_the_model_beside_it(form: str, names: tuple[str, str]) -> None:
    text = form.format(*names)
    assert [format_in(text, model=one) in ("q8_0", "int8") for one in names] == [False, True]


@pytest.mark.parametrize("names", _PAIRS)
@pytest.mark.parametrize("form", _BOTH)
def test_a_format_of_all_models_is_that_of_each(form: str, names: tuple[str, str]) -> None:
    assert [format_in(form.format(*names), model=one) for one in names] == ["q8_0", "q8_0"]


@pytest.mark.parametrize(
    "text",
    [
        f"RTX 3090 used {price}, is that a fair price?"
        for price in ("for £1,400", "for 1.400 €", "for 210,000円", "for 1400 CHF", "for 5500 PLN", "")
    ],
)
def test_the_catalog_is_not_compared_with_itself(text: str) -> None:
    _, listing = read_listings(None, BOOK, (), text)[0]
    question = Question(MachineLoad(models.get("8b").record))
    reply = price_reply(judge_listing(listing, question, BOOK, better=False), listing)
    assert reply.startswith("Is the price fair? That is open")
    assert "$" in reply


_PLACES: Final = ("PSU", "case", "cooler", "power supply", "board", "motherboard", "CPU cooler")


@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize("words", ["big enough", "ok", "strong enough for both"])
@pytest.mark.parametrize(
    "form", ["{0}, is the {1} {2}?", "{0}: is my {1} {2}, how fast is it?", "{0} and is the {1} {2}?"]
)
def test_a_question_whether_a_kind_of_part_is_enough_is_no_part(form: str, place: str, words: str) -> None:
    rows = "Ryzen 9 9950X3D\nRTX 3090 Ti\nCorsair HX1500i\n64GB DDR5\n"
    _, listing = read_listings(None, BOOK, (), rows + form.format("Adding an RTX 5090", place, words))[0]
    machine = listing.machine
    assert not listing.unknown
    assert machine.supplies is not None
    assert machine.supplies.power_w == 1500
    assert machine.cards is not None
    assert machine.cards.num == 2

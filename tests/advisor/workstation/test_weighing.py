"""Questions that weigh parts which may come against those that are there: keep, replace, or join."""

import pytest

from advisor.catalog.part_prices import price_book
from advisor.workstation.listing import Listing, read_listings

BOOK = price_book()
WORDINGS = [
    "Should I sell my {old} and buy a used {new} for local LLMs, or keep it?",
    "Should I keep my {old} or sell it and get a {new}?",
    "Should I keep the {old} or swap it for a {new}?",
    "Is it worth selling my {old} for a {new}?",
    "Worth selling my {old} to buy a {new} for LLMs?",
    "Does it make sense to trade my {old} for a {new}?",
    "I have a {old}. Should I sell it and buy a {new} or keep it?",
    "I have a {old}. Sell it and buy a {new}, or keep it?",
    "I have a {old}. Should I replace it with a {new}?",
    "Currently running a {old}. Is it worth upgrading to a {new}?",
    "Is upgrading from a {old} to a {new} worth it for Qwen3 32B?",
    "Should I upgrade from my {old} to a {new}?",
    "Would you sell a {old} to get a {new}?",
    "Would you swap a {old} for a {new} or stay with the {old}?",
    "Keep my {old} or sell and buy a {new}?",
    "Thinking about selling my {old} and getting a {new} instead. Good idea?",
    "Thinking of replacing my {old} with a {new} for local LLMs. Worth it?",
    "My {old} could be sold for a {new}. Should I do it?",
    "Sell {old}, buy {new}?",
    "Is a {new} better than my {old} for local LLMs? Should I switch?",
    "Ditch my {old} for a {new}?",
    "Should I get rid of my {old} and pick up a {new}?",
    "I own a {old} and could buy a {new}. Keep it, swap it or run both?",
    "I've got a {old}, thinking of a {new}. Keep or sell?",
    "Soll ich meine {old} verkaufen und eine {new} kaufen oder behalten?",
    "Lohnt es sich, meine {old} gegen eine {new} zu tauschen?",
    "Dois-je vendre ma {old} et acheter une {new} ou la garder ?",
    "¿Vale la pena vender mi {old} y comprar una {new}?",
    "Old rig here with a {old}. Keep it for LLMs or sell it all and buy one used {new}?",
    "What would you do: keep the {old}, or sell it and put the money into a {new}?",
    "Would a {new} be a real upgrade over my {old} for local LLMs, or should I just hold on to it?",
    "I'm on a {old} right now. Is it smarter to sell and go for a used {new}?",
    "Does moving from a {old} to a {new} make sense for Qwen3 32B?",
    "Is a used {new} worth it if I already own a {old}?",
    "I already have a {old}; should I trade up to a {new}?",
    "{old} now. Upgrade to {new} or not?",
    "{old} -> {new}, worth it for LLMs?",
    "Keep {old} vs buy {new}?",
    "my {old} vs a used {new} for llama.cpp: sell or keep?",
    "Hi all, long time {old} owner here. Would you flip it for a {new}?",
    "Thinking about letting go of my {old} to fund a {new}. Thoughts?",
    "Is my {old} still good enough for local LLMs or is it time to replace it with a {new}?",
    "Should the {old} stay, or should a {new} take its place?",
    "Should I return the {old} and get a {new} instead?",
    "I could get $600 for my {old}. Put that towards a {new}?",
    "Would it be dumb to dump my {old} for a used {new} at $750?",
    "How much faster would a {new} be than my {old}? Worth swapping?",
    "Macht es Sinn, die {old} zu behalten, oder lieber eine gebrauchte {new} kaufen?",
    "Ich überlege, meine {old} durch eine {new} zu ersetzen. Lohnt sich das?",
    "J'ai une {old}. Est-ce que ça vaut le coup de passer à une {new} ?",
    "¿Debería cambiar mi {old} por una {new} o quedármela?",
    "Conviene vendere la mia {old} e comprare una {new}?",
    "Czy warto sprzedać {old} i kupić {new}?",
    "At $750 for a {new}, does replacing my {old} pay off for 30B models?",
    "Can someone talk me out of swapping my {old} for a {new}?",
    "What would I gain by going from my {old} to a {new}?",
    "Behalte ich die {old} oder hole ich mir eine {new}?",
    "Tengo una {old}, ¿la cambio por una {new}?",
    "Is het slim om mijn {old} te verkopen en een {new} te kopen?",
]
CARDS = [
    ("RTX 4080 Super", "rtx-4080-super", "RTX 3090", "rtx-3090"),
    ("3060 12GB", "rtx-3060-12gb", "R9700", "r9700"),
]
REST = "Ryzen 5 5600, B550 Tomahawk, 32GB DDR4-3600, RM850x."


def read(text: str) -> dict[str, Listing]:
    return dict(read_listings(None, BOOK, (), text))


def cards_of(listing: Listing) -> tuple[str, ...]:
    cards = listing.machine.cards
    return tuple(sorted(card.accelerator for card in cards.cards)) if cards is not None else ()


@pytest.mark.parametrize("wording", WORDINGS)
@pytest.mark.parametrize(("old", "own", "new", "other"), CARDS)
def test_a_question_that_weighs_a_card_against_an_own_one_has_both_and_each_alone(
    wording: str, old: str, own: str, new: str, other: str
) -> None:
    for rest in ("", f" Rest: {REST}"):
        found = read(f"{wording.format(old=old, new=new)}{rest}")
        machines = {cards_of(listing): listing for listing in found.values()}
        assert {(own,), (other,)} <= set(machines) <= {(own,), (other,), tuple(sorted((own, other)))}
        assert machines[(own,)].total_usd == 0
        assert not any(listing.unknown for listing in found.values())
        is_kept = bool(rest) and "sell it all" not in wording
        assert all(
            (listing.machine.cpu is not None) == is_kept for listing in found.values() if listing.total_usd
        )


@pytest.mark.parametrize(
    ("question", "machines"),
    [
        ("Should I swap a 3060 for a 3090?", {"3090 instead": ("rtx-3060-12gb", "rtx-3090")}),
        ("Should I sell both and get a 3090?", {"3090 instead": ("rtx-3090",)}),
        ("Would it be better to get 2x R9700 instead?", {"2x R9700 instead": ("r9700", "r9700")}),
        ("Get a 5090 or a 4090?", {"5090 instead": ("rtx-5090",), "4090 instead": ("rtx-4090",)}),
        ("Should I sell them and buy a DGX Spark?", {"DGX Spark instead": ()}),
    ],
)
def test_what_a_question_gives_away_leaves_by_its_number(
    question: str, machines: dict[str, tuple[str, ...]]
) -> None:
    found = read(f"{REST} 2x RTX 3060 12GB. {question}")
    assert {name: cards_of(found[name]) for name in machines} == machines
    kept = found["2 x RTX 3060 12GB as it is"]
    assert cards_of(kept) == ("rtx-3060-12gb", "rtx-3060-12gb")


@pytest.mark.parametrize(
    "question",
    [
        "Can I add a 3090 to it?",
        "Will my supply handle a 3090 as well?",
        "Would a second 3060 work?",
        "Do a 3090 and my 3060 run together?",
    ],
)
def test_a_question_whether_a_machine_takes_a_card_weighs_none(question: str) -> None:
    assert len(read(f"I have a Ryzen 5 5600, B550 Tomahawk, RM850x and a RTX 3060 12GB. {question}")) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "I want to replace the 1080 Ti with an RTX 5090. What else do I have to change?",
        "Replacing the 1080 Ti with an RTX 5090. Is the supply ok, and how fast is a 32B?",
        "Swapped the 1080 Ti for an RTX 5090.",
    ],
)
def test_a_decided_swap_is_one_machine(statement: str) -> None:
    (found,) = read(f"i7-8700K, ASUS Prime Z370-A, 32GB DDR4, GTX 1080 Ti. {statement}").values()
    assert cards_of(found) == ("rtx-5090",)


WHOLE = ["Mac Studio M3 Ultra 512GB", "DGX Spark", "Framework Desktop 128GB"]
HOSTS = [
    "EPYC 9355 with 12x64GB DDR5-6400 and an RTX 5090",
    "EPYC 7532 + 256GB DDR4 + RTX 3090",
    "Ryzen 9 9950X, 128GB DDR5, RTX 5090",
    "2x RTX 3090 with a 5950X",
]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("whole", WHOLE)
@pytest.mark.parametrize(
    "question",
    [
        "{whole} or an {host} for DeepSeek R1?",
        "{host} vs {whole} for a 70B",
        "Should I buy a {whole}, or a {host}?",
        "Torn: a {host} or rather a {whole}?",
    ],
)
def test_what_stands_beside_a_whole_machine_is_another_one(question: str, whole: str, host: str) -> None:
    found = read(question.format(whole=whole, host=host)).values()
    assert len(found) == 2
    assert sorted(listing.system is not None for listing in found) == [False, True]
    for listing in found:
        is_whole = listing.system is not None
        assert (listing.machine.cpu is None) == is_whole
        assert bool(cards_of(listing)) != is_whole
        assert not listing.unknown


@pytest.mark.parametrize("unknown", ["Quadro M4000", "Zotac Blaster X9000", "Zorg 9000 Pro"])
def test_a_weighed_card_that_no_record_has_is_named(unknown: str) -> None:
    for text in (
        f"Should I sell my {unknown} and buy a used RTX 3090?",
        f"Should I sell my RTX 3090 and get a {unknown}?",
    ):
        found = read_listings(None, BOOK, (), text)
        told = [note for _, listing in found for note in listing.notes]
        told += [error.part for _, listing in found for error in listing.unknown]
        assert any(unknown in words for words in told)
        assert not any("Should" in words for words in told)

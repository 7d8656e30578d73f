"""Three questions to a person who typed `advisor` alone on a terminal: model, load, budget."""

import shlex
from collections.abc import Callable

import typer

MODEL = "Which model? A name or the path of a config.json"
LOAD = "How many requests per second? Enter for several loads"
BUDGET = "What may it cost a month, in dollars? Enter for no limit"


def ask_words(ask: Callable[..., str] = typer.prompt, tell: Callable[[str], None] = typer.echo) -> list[str]:
    """Return the words of the command that the answers make; the command is shown, so that it can be typed again.

    A second question that is left empty asks for several loads; a budget without a load asks for the most traffic.
    """
    tell("Three questions, then an answer. advisor --help lists all commands; Ctrl-C ends this.")
    words = ["recommend", "--model", _answer(ask, MODEL, "70b")]
    rate = _answer(ask, LOAD, "")
    budget = _answer(ask, BUDGET, "")
    if rate:
        words += ["--rate", rate]
    if budget:
        words += ["--budget", budget if "/" in budget else f"{budget.lstrip('$')}/month"]
    tell(f"\n$ advisor {shlex.join(words)}\n")
    return words


def _answer(ask: Callable[..., str], question: str, default: str) -> str:
    return ask(question, default=default, show_default=bool(default)).strip()

"""Ask the laws of `tests/advisor/laws` about generated questions, one question after the other, and print violations.

    python tools/check_laws.py                      the laws of small markets, 60 questions
    python tools/check_laws.py --real               pairs of a wider and a narrower question on the real catalog
    python tools/check_laws.py --first 20 --count 5 --law widening

A question is asked about all laws before the next one, so that each answer is computed once. The exit code is 1 where a
law is broken.
"""

import argparse
import importlib
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LAWS = Path(__file__).resolve().parents[1] / "tests" / "advisor" / "laws"
sys.path[:0] = [str(LAWS), str(Path(__file__).resolve().parent)]
MODULES = ("test_widening", "test_offers_and_top", "test_one_answer", "test_budgets", "test_figures")

Law = Callable[[Any], None]


def laws_of_markets() -> dict[str, Law]:
    """Return the laws that take a generated question, by name."""
    for name in MODULES:
        importlib.import_module(name)
    found = importlib.import_module("questions").GENERATED
    return {f"{law.__module__}.{law.__name__}": law for law in found}


def cases(num_questions: int, *, is_real: bool) -> Iterator[tuple[str, Any, dict[str, Law]]]:
    """Yield a label, a question and the laws that take it."""
    if is_real:
        widening = importlib.import_module("test_widening")
        for pair in importlib.import_module("real_questions").pairs(num_questions):
            yield f"{pair.limit}: {pair.narrow}", pair, {"widening": widening.check_pair}
        return
    laws = laws_of_markets()
    for question in importlib.import_module("questions").examples(num_questions):
        yield f"{question.words()} | {question.narrower}", question, laws


def main() -> int:
    """Print each violation with its question."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--real", action="store_true", help="ask pairs on the real catalog")
    parser.add_argument("--first", type=int, default=0, help="place of the first question")
    parser.add_argument("--count", type=int, default=60, help="number of questions")
    parser.add_argument("--law", default="", help="regular expression that the law's name contains")
    asked = parser.parse_args()
    broken = 0
    from asking import ask

    for place, (label, question, laws) in enumerate(cases(asked.first + asked.count, is_real=asked.real)):
        if not asked.first <= place < asked.first + asked.count:
            continue
        started = time.process_time()
        for name, law in laws.items():
            if not re.search(asked.law, name):
                continue
            try:
                law(question)
            except Exception as error:  # a crash breaks a law as much as a wrong answer does
                broken += 1
                last = traceback.extract_tb(error.__traceback__)[-1]
                text = re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")[:600]
                print(
                    f"BROKEN {place} {name}, line {last.lineno} of {Path(last.filename).name}: {text}\n    {label}",
                    flush=True,
                )
        print(f"{place}: {time.process_time() - started:.1f} s, {broken} broken", flush=True)
        ask.cache_clear()
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())

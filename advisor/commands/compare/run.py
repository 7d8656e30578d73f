"""Compare two files: what they are decides how."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from advisor.ask.options import SharedOptions
from advisor.catalog.errors import InputFileError
from advisor.commands.compare.options import CompareInput
from advisor.render.answer import Answer
from advisor.render.saved import read_document

PROBE = "probe"


def compare(asked: CompareInput, shared: SharedOptions) -> Answer:
    """Compare two accelerators or models figure by figure, two probes quantity by quantity, or two plans or reports by
    question, figures and causes.

    Raises: InputFileError: a file cannot be read, is no answer of this program, or the two are of different kinds.
    """
    first = asked.first
    second = asked.second
    from advisor.catalog import accelerators, models

    if _are_names(first, second, accelerators.get):
        from advisor.commands.compare.accelerator_comparison import compare_accelerators

        return compare_accelerators(str(first), str(second))
    if _are_names(first, second, models.get):
        from advisor.commands.compare.model_comparison import compare_models

        return compare_models(str(first), str(second))
    documents = [_document(path) for path in (first, second)]
    kinds = [PROBE if document is None else str(document.get("kind", "")) for document in documents]
    if PROBE in kinds and set(kinds) == {PROBE}:
        return _compared_probes(first, second)
    one, other = documents
    if kinds[0] != kinds[1] or one is None or other is None:
        raise InputFileError(
            f"{first} is a {kinds[0] or 'document without a kind'}, {second} a {kinds[1] or 'document without a kind'}",
            why="only answers of one kind can be compared",
            fix="name two plans, two reports or two probes",
        )
    from advisor.render.comparison_view import documents_answer
    from advisor.render.document_comparison import compare_documents

    return documents_answer(compare_documents(one, other), first, second)


def _are_names(first: Path, second: Path, get: Callable[[str], object]) -> bool:
    """Whether the two words are no files and at least one of them names a record of a kind."""
    from advisor.catalog.errors import UnknownNameError
    from advisor.probes.document import recordings

    words = [str(path) for path in (first, second)]
    if any(path.exists() or path.suffix == ".json" for path in (first, second)):
        return False
    if any(word in recordings() for word in words):
        return False
    for word in words:
        try:
            get(word)
        except UnknownNameError:
            continue
        return True
    return False


def _compared_probes(first: Path, second: Path) -> Answer:
    from advisor.commands.compare.view import comparison_answer
    from advisor.probes.compare import compare as differences
    from advisor.probes.document import read_probe

    found = differences(*(read_probe(path) for path in (first, second)))
    if not found:
        raise InputFileError(
            f"{first} and {second} have no quantity in common",
            why="they were measured in other ways or on other GPUs",
            fix="compare two probes of the same mode",
        )
    return comparison_answer(found, {"first": first, "second": second})


def _document(path: Path) -> Mapping[str, Any] | None:
    """Return the JSON document of a file; None for the name of a recorded probe.

    Raises: InputFileError: it cannot be read or is no document of this program.
    """
    if not path.exists() and not path.suffix:
        return None
    return read_document(path)

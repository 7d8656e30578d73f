"""One file per kind of mixer, named as the `kind` of its record; each defines `Operators(record, hidden_size)`."""

from functools import lru_cache
from importlib import import_module
from typing import cast

from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Mixer
from advisor.simulator.graph.operator import MixerOperators


@lru_cache(maxsize=4096)
def mixer_operators(record: Mixer, hidden: int) -> MixerOperators:
    """The operators behind a mixer's record.

    Raises: AdvisorError: the kind has no file, or its file leaves out what a mixer must say.
    Source: own definition.
    """
    file = f"simulator/graph/mixers/{record.kind}.py"
    try:
        module = import_module(f"{__name__}.{record.kind}")
    except ModuleNotFoundError as error:
        raise AdvisorError(f"mixer {record.kind!r} has no operators", fix=f"write {file}") from error
    operators = cast(MixerOperators, module.Operators(record, hidden))
    missing = _missing(operators)
    if missing:
        raise AdvisorError(f"{file}: {missing}")
    return operators


def _missing(operators: MixerOperators) -> str:
    """What a kind does not say of itself, in words; empty where it is complete."""
    if (operators.attention is None) == (operators.recurrence() is None):
        return "a mixer has either attention over a cache or a recurrence"
    if not operators.matrices or not operators.launches or not operators.head_counts:
        return "a mixer has matrices, launches and heads"
    if bool(operators.recurrence_kernel) == (operators.attention is not None):
        return "a recurrence names the kernel that prices it"
    if any(matrix.local(1).elements != matrix.elements for matrix in operators.stored):
        return "the matrices of one rank do not add up to the parameters"
    return ""

"""The answer to one published case, whatever its kind, and how what is wrong with a row becomes a status."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from advisor.catalog.errors import AdvisorError
from advisor.simulator.quantity import Basis, Quantity

CaseT = TypeVar("CaseT")


class UnsupportedCaseError(AdvisorError):
    """The row is well formed but asks for something that is not modelled."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answer to one case: metrics in the units of the truth's columns, or why there is none."""

    case_id: str
    status: str
    """ok, unsupported (something that is not told or not modelled), infeasible (does not fit), error."""
    reason: str = ""
    basis: Basis = "modelled"
    metrics: Mapping[str, Quantity] = field(default_factory=dict)


def answered(case_id: str, parse: Callable[[], CaseT], predict: Callable[[CaseT], Prediction]) -> Prediction:
    """What is predicted for a row; a row that cannot be read or is not modelled says so in its status."""
    try:
        return predict(parse())
    except UnsupportedCaseError as error:
        return Prediction(case_id, "unsupported", error.what)
    except AdvisorError as error:
        return Prediction(case_id, "error", error.what)

"""Prediction of one published case of any kind, with a status if the row cannot be predicted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from advisor.catalog.errors import AdvisorError
from advisor.simulator.quantity import Basis, Quantity

CaseT = TypeVar("CaseT")


class UnsupportedCaseError(AdvisorError):
    """Well-formed row that asks for a mechanism which is not modelled."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Prediction of one case: metrics in the units of the measured columns, or the reason why there is none."""

    case_id: str
    status: str
    """Status: ok, unsupported (a condition is unknown or not modelled), infeasible (does not fit), error."""
    reason: str = ""
    basis: Basis = "modelled"
    metrics: Mapping[str, Quantity] = field(default_factory=dict)
    weight_dtype: str = ""
    """Format of the weights of a served model; empty where nothing or no server is predicted."""


def predict_or_report(
    row: Mapping[str, str],
    row_number: int,
    parse: Callable[[], CaseT],
    predict: Callable[[CaseT], Prediction],
) -> Prediction:
    """Return the prediction of a row; the status says if the row cannot be read or is not modelled. A row without a
    name is called by its number."""
    case_id = (row.get("case_id") or "").strip() or f"row-{row_number}"
    try:
        return predict(parse())
    except UnsupportedCaseError as error:
        return Prediction(case_id, "unsupported", error.what)
    except AdvisorError as error:
        return Prediction(case_id, "error", error.what)

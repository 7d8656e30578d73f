"""When a published run took place, where only years are stated."""

from dataclasses import replace

from advisor.catalog import models
from advisor.catalog.errors import UnknownNameError
from advisor.catalog.releases import middle_of
from advisor.evidence.serving.case import ServingCase

_FIRST_DAY = "-01"


def dated(case: ServingCase) -> ServingCase:
    """A case of which a year or two are stated, with the middle of them as its date, but none before its model was
    released: no engine of that time could run it.

    Assumes: engines serve a model from the month on in which it is released.
    Source: own definition; `released` of the model's record.
    """
    date = middle_of(case.date)
    if date == case.date:
        return case
    try:
        released = models.get(case.model).record.released
    except UnknownNameError:
        released = ""
    return replace(case, date=max(date, released + _FIRST_DAY if released else ""))

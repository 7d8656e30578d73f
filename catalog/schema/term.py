"""A number that was fitted, measured, read in somebody's source or assumed, and what it holds for."""

from typing import Literal, Self

from pydantic import Field, model_validator

from advisor.catalog.releases import is_release
from advisor.catalog.schema.record import Record

Scope = Literal["engine", "framework", "device"]
"""Whose number it is: a serving engine's, a training framework's, an accelerator's, a network's."""
Kind = Literal["read in source", "measured", "fitted on kernels", "fitted on runs", "assumed"]
"""How it was found. Measured: with a probe or a running engine of our own; fitted on runs: of published ones."""


class Term(Record):
    """One row of the table of terms. An empty selector holds for everything."""

    scope: Scope
    name: tuple[str, ...] = ()
    """Of the scope, e.g. vllm; empty is every engine."""
    since: str = ""
    """First release, as version, date or both: `0.14.0 2026-01-20`."""
    until: str = ""
    """First release that no longer belongs."""
    architecture: tuple[str, ...] = ()
    """Of the accelerator; a star at the end stands for any ending."""
    mixer: tuple[str, ...] = ()
    """Kind of a layer's mixer, e.g. mla."""
    dtype: tuple[str, ...] = ()
    """Of weights, or of the multiplication."""
    operator: tuple[str, ...] = ()
    term: str
    value: float = Field(ge=0)
    """What takes less than nothing has its cause in another term."""
    unit: str = Field(min_length=1)
    kind: Kind
    source: str = Field(min_length=1)
    fitted_on: str = ""
    """Campaigns of runs, or devices."""
    residual: str = ""
    """Median of |predicted / measured - 1| on what was left out of the fit."""

    @model_validator(mode="after")
    def _is_founded(self) -> Self:
        for field in ("since", "until"):
            if (release := getattr(self, field)) and not is_release(release):
                raise ValueError(f"{field} is a version, a date, or both: {release!r} is not")
        for field in ("fitted_on", "residual"):
            if self.kind.startswith("fitted on runs") and not getattr(self, field):
                raise ValueError(f"a term that is fitted on runs says {field}")
        return self

    @property
    def specificity(self) -> int:
        """Selectors that are filled; the span of releases is one."""
        selectors = (
            self.name,
            self.since or self.until,
            self.architecture,
            self.mixer,
            self.dtype,
            self.operator,
        )
        return sum(bool(selector) for selector in selectors)

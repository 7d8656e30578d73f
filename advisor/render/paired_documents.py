"""Whether a change between two plans may be the model's: errors in common cancel where the question is the same."""

import math
from collections.abc import Mapping
from typing import Final

from advisor.render.document import Json
from advisor.simulator.intervals import LEVELS, class_of_pair, pair_errors

_BY_THROUGHPUT: Final = (
    "performance.usd_per_million_tokens",
    "performance.usd_per_million_output_tokens",
    "performance.requests_per_s",
    "performance.total_tokens_per_s",
)
"""Figures whose error is the throughput's: prices and accelerators are exact."""
_DEPLOYMENT: Final = (
    "machine.accelerator",
    "layout.engine",
    "layout.weight_dtype",
    "layout.kv_dtype",
    "layout.tensor_parallel",
    "layout.pipeline_parallel",
    "layout.data_parallel",
    "layout.expert_parallel",
)
_LEVEL_80: Final = LEVELS.index(0.8)


def asks_the_same(first: Mapping[str, Json], second: Mapping[str, Json]) -> bool:
    """Whether two documents are plans of one model under one load by one version of the data."""
    inputs = [document.get("inputs") for document in (first, second)]
    if not all(isinstance(each, dict) and each.get("traffic") is not None for each in inputs):
        return False
    one, other = (each for each in inputs if isinstance(each, dict))
    same = all(one.get(name) == other.get(name) for name in ("model", "traffic", "calibration"))
    versions = ("kind", "tool_version", "catalog_version")
    return same and all(first.get(name) == second.get(name) for name in versions)


def is_within_error(
    figure: str, first: Mapping[str, Json], second: Mapping[str, Json], ratio: float
) -> bool | None:
    """Whether a figure's ratio lies within the error of ratios between such deployments; None if it is not known.

    The same deployment errs in the same way twice: what moved its figures is price or load, not the model.
    """
    if figure not in _BY_THROUGHPUT or not ratio > 0:
        return None
    if not all(at(record, name) is not None for record in (first, second) for name in _DEPLOYMENT):
        return None
    same = {name: at(first, name) == at(second, name) for name in _DEPLOYMENT}
    if all(same.values()):
        return False
    name = class_of_pair(
        same_accelerator=same["machine.accelerator"],
        same_engine=same["layout.engine"],
        same_format=same["layout.weight_dtype"] and same["layout.kv_dtype"],
        transferred=any(at(record, "performance.basis") == "assumed" for record in (first, second)),
    )
    return abs(math.log(ratio)) <= pair_errors(name, "throughput").quantiles[_LEVEL_80]


def at(record: Mapping[str, Json], place: str) -> Json:
    """Return the value at a dotted place of nested records; None where there is none."""
    value: Json = dict(record)
    for part in place.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def first_at(record: Mapping[str, Json], *places: str) -> Json:
    """Return the value at the first place that has one."""
    return next((value for place in places if (value := at(record, place)) is not None), None)

"""Whether a change between two plans may be the model's: errors in common cancel where the question is the same."""

import math
from collections.abc import Mapping
from typing import Final

from advisor.render.document import Json
from advisor.simulator.intervals import LEVELS, class_of_pair, pair_errors

_BY_THROUGHPUT: Final = (
    "usd_per_million_tokens", "usd_per_million_input_tokens", "usd_per_million_output_tokens", "requests_per_s",
    "total_tokens_per_s",
)  # fmt: skip
"""Figures whose error is the throughput's: prices and accelerators are exact."""
_DEPLOYMENT: Final = (
    "accelerator", "engine", "weight_dtype", "kv_dtype", "tensor_parallel", "pipeline_parallel", "data_parallel",
    "expert_parallel",
)  # fmt: skip
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


def paired_within_error(
    figure: str, first: Mapping[str, Json], second: Mapping[str, Json], ratio: float
) -> bool | None:
    """Whether a figure's ratio lies within what ratios of such deployments err by; None where that is not known.

    The same deployment errs in the same way twice: what moved its figures is price or load, not the model.
    """
    if figure not in _BY_THROUGHPUT or not ratio > 0:
        return None
    if not all(record.get(name) is not None for record in (first, second) for name in _DEPLOYMENT):
        return None
    same = {name: first[name] == second[name] for name in _DEPLOYMENT}
    if all(same.values()):
        return False
    name = class_of_pair(
        same_accelerator=same["accelerator"],
        same_engine=same["engine"],
        same_format=same["weight_dtype"] and same["kv_dtype"],
        transferred=any(_is_assumed(record) for record in (first, second)),
    )
    return abs(math.log(ratio)) <= pair_errors(name, "throughput").quantiles[_LEVEL_80]


def _is_assumed(record: Mapping[str, Json]) -> bool:
    cost = record.get("usd_per_million_tokens")
    return isinstance(cost, dict) and cost.get("basis") == "assumed"

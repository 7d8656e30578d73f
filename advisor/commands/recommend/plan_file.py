"""Plan files: a question, the data it was asked of, and its answer without timings; replayed byte for byte."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import check_record, read_json
from advisor.decide.scenario import Scenario
from advisor.decide.training.scenario import TrainingScenario
from advisor.render.answer import Answer
from advisor.render.atomic import write_text
from advisor.render.document import Json, catalog_version, document, dump
from advisor.render.saved import check_saved

AnyScenario = Scenario | TrainingScenario
_OF_THE_RUN: Final = {"counts": ("wall_s",), "search": ("wall_s",), "inputs": ("offline",)}
"""Fields of an answer's document that a plan leaves out: they differ between runs of one question."""
_WRITTEN_BY: Final = "name a file that --plan or -o FILE.json wrote"
WORKED_OUT: Final = ("rate_per_s",)
"""Inputs of a plan that are computed rather than asked: the load of the options shown."""


def plan_text(answer: Answer, scenario: AnyScenario) -> str:
    """Return the plan as JSON text: what `document` holds, without what differs from run to run."""
    return dump(_without_run(document(answer, seed=scenario.seed, shared={})))


def _without_run(content: Mapping[str, Json]) -> dict[str, Json]:
    """Return a document without what differs between runs of one question."""
    found = dict(content)
    for name, fields in _OF_THE_RUN.items():
        part = found.get(name)
        if isinstance(part, dict):
            found[name] = {key: value for key, value in part.items() if key not in fields}
    return found


def write_plan(answer: Answer, scenario: AnyScenario, path: Path | None) -> Answer:
    """Return the answer, kept as a plan file where one is named.

    Raises: UnwritableError: the system refused; nothing is left behind.
    """
    if path is None:
        return answer
    write_text(path, plan_text(answer, scenario))
    return replace(answer, notes=(*answer.notes, f"wrote {path}"))


def read_plan(path: Path) -> tuple[AnyScenario, Mapping[str, Json]]:
    """Return the question of a plan file or of an answer that was written as JSON, and the whole plan.

    Raises: InputFileError: the file cannot be read, is not JSON, is no plan, or is one of another schema.
    """
    content = read_json(path, _WRITTEN_BY)
    if (
        not isinstance(content, dict)
        or content.get("kind") != "plan"
        or not isinstance(content.get("inputs"), dict)
    ):
        raise InputFileError(
            f"{path}: is no plan",
            why='a plan has kind "plan" and inputs',
            fix=_WRITTEN_BY,
        )
    check_saved(path, content)
    plan = _without_run(content)
    inputs: dict[str, Json] = plan["inputs"]  # type: ignore[assignment]
    if inputs.get("workload", "serve") == "serve":
        asked = {name: value for name, value in inputs.items() if name not in WORKED_OUT}
        return check_record(Scenario, asked, str(path)), plan
    return check_record(TrainingScenario, inputs, str(path)), plan


def differences(plan: Mapping[str, Json], answer: Answer, scenario: AnyScenario) -> tuple[str, ...]:
    """Return the differences between the answer given now and the plan: versions first, then fields."""
    now: dict[str, Json] = json.loads(plan_text(answer, scenario))
    found = []
    if plan.get("catalog_version") != catalog_version():
        found.append(
            f"the catalog has changed: the plan's is {plan.get('catalog_version')}, now {catalog_version()}"
        )
    if plan.get("tool_version") != now["tool_version"]:
        found.append(f"the plan is of advisor {plan.get('tool_version')}, this is {now['tool_version']}")
    changed = [
        name
        for name in now
        if name not in ("catalog_version", "tool_version") and plan.get(name) != now[name]
    ]
    if changed:
        found.append(f"the answer differs from the plan's in {', '.join(changed)}")
    return tuple(found)

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
TIMINGS: Final = ("wall_s",)
WORKED_OUT: Final = ("rate_per_s",)
"""Inputs of a plan that are computed rather than asked: the load of the options shown."""


def plan_text(answer: Answer, scenario: AnyScenario) -> str:
    """Return the plan as JSON text: what `document` holds, without what differs from run to run."""
    content = document(answer, seed=scenario.seed, shared={})
    for name in ("counts", "search"):
        counts = content.get(name)
        if isinstance(counts, dict):
            content[name] = {key: value for key, value in counts.items() if key not in TIMINGS}
    return dump(content)


def write_plan(answer: Answer, scenario: AnyScenario, path: Path | None) -> Answer:
    """Return the answer, kept as a plan file where one is named.

    Raises: UnwritableError: the system refused; nothing is left behind.
    """
    if path is None:
        return answer
    write_text(path, plan_text(answer, scenario))
    return replace(answer, notes=(*answer.notes, f"wrote {path}"))


def read_plan(path: Path) -> tuple[AnyScenario, Mapping[str, Json]]:
    """Return the question of a plan file, and the whole plan.

    Raises: InputFileError: the file cannot be read, is not JSON, is no plan, or is one of another schema.
    """
    content = read_json(path, "name a file that --plan wrote")
    if (
        not isinstance(content, dict)
        or content.get("kind") != "plan"
        or not isinstance(content.get("inputs"), dict)
    ):
        raise InputFileError(
            f"{path}: is no plan",
            why='a plan has kind "plan" and inputs',
            fix="name a file that --plan wrote",
        )
    check_saved(path, content)
    if content["inputs"].get("workload", "serve") == "serve":
        asked = {name: value for name, value in content["inputs"].items() if name not in WORKED_OUT}
        return check_record(Scenario, asked, str(path)), content
    return check_record(TrainingScenario, content["inputs"], str(path)), content


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

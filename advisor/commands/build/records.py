"""Workstations as data: machines, bills, what they run, rules, and everything that the answer rests on."""

from collections.abc import Mapping

from advisor.render.document import fields_of, pick_attributes
from advisor.workstation.assembly import Check
from advisor.workstation.performance import MachinePerformance
from advisor.workstation.plan import Build, Question
from advisor.workstation.wiring import reach_of_machine, wire


def build_record(build: Build) -> dict[str, object]:
    """Return a machine as data."""
    run = build.performance
    return {
        "name": build.name,
        "kind": build.kind,
        "total_usd": build.total_usd,
        "power_w": build.power_w,
        "optimality_gap": build.optimality_gap,
        "performance": None if run is None else performance_record(run),
        "economics": build.economics,
        "parts": [{**fields_of(line), "usd": line.usd} for line in build.parts],
        "checks": [check_record(check) for check in build.checks],
        "wiring": [] if build.machine is None else [fields_of(card) for card in wire(build.machine)],
        "reach": None if build.machine is None else fields_of(reach_of_machine(build.machine)),
        "note": build.note,
    }


def bill_records(build: Build) -> list[dict[str, object]]:
    """Return the bill of a machine as rows that name it."""
    return [{"build": build.name, **fields_of(line), "usd": line.usd} for line in build.parts]


def performance_record(run: MachinePerformance) -> dict[str, object]:
    """Return the performance of a workstation as data."""
    return (
        pick_attributes(run.run, "engine split weight_dtype weight_bytes_per_card kv_tokens num_waiting")
        | pick_attributes(run, "output_tokens_per_s input_tokens_per_s decode_tokens_per_s ttft_s tpot_s")
        | pick_attributes(run, "other_runs finest power_points")
        | pick_attributes(run, "qlora_bytes_per_card largest_qlora qlora_fits")
    )


def check_record(check: Check) -> dict[str, object]:
    """Return a rule's finding as data."""
    names = ("rule", "actual", "limit", "unit", "severity", "excess", "why", "remedy")
    return pick_attributes(check, *names) | {"pass": check.passed, "verdict": check.verdict}


def question_inputs(question: Question) -> Mapping[str, object]:
    """Return everything that the answer depends on."""
    load = question.load
    setting = question.setting
    return {
        "model": load.model.id,
        **pick_attributes(question, "budget_usd target_tokens_per_s use used"),
        **pick_attributes(load, "workload concurrency input_tokens output_tokens precision engine"),
        "circuit": str(setting.circuit),
        "circuit_continuous_w": setting.circuit.continuous_w,
        **pick_attributes(setting, "min_lanes needs_ecc room_cooling_w max_noise_db needs_quiet"),
        "max_cards": question.limits.max_cards,
        **pick_attributes(question.limits, "accelerators power_points"),
        "have": [] if question.have is None else [part.name for _, part, _ in question.have.bill()],
        "currency": "USD",
    }

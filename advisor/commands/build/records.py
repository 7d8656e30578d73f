"""Workstations as data: machines, bills, what they run, rules, and everything that the answer rests on."""

from collections.abc import Mapping

from advisor.build.assembly import Check
from advisor.build.plan import Build, Performance, Question
from advisor.render.serialize import fields_of


def build_record(build: Build) -> dict[str, object]:
    """A machine as data."""
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
        "note": build.note,
    }


def bill_records(build: Build) -> list[dict[str, object]]:
    """The bill of a machine as rows that name it."""
    return [{"build": build.name, **fields_of(line), "usd": line.usd} for line in build.parts]


def performance_record(run: Performance) -> dict[str, object]:
    """What a machine runs, as data."""
    return {
        "engine": run.run.engine,
        "split": run.run.split,
        "weight_dtype": run.run.weight_dtype,
        "output_tokens_per_s": run.output_tokens_per_s,
        "input_tokens_per_s": run.input_tokens_per_s,
        "decode_tokens_per_s": run.decode_tokens_per_s,
        "ttft_s": run.ttft_s,
        "tpot_s": run.tpot_s,
        "weight_bytes_per_card": run.run.weight_bytes_per_card,
        "kv_tokens": run.run.kv_tokens,
        "other_runs": run.other_runs,
        "finest": run.finest,
        "qlora_bytes_per_card": run.qlora_bytes_per_card,
        "largest_qlora": run.largest_qlora,
        "qlora_fits": run.qlora_fits,
        "power_points": run.power_points,
    }


def check_record(check: Check) -> dict[str, object]:
    """A rule's finding as data."""
    return {
        "rule": check.rule,
        "actual": check.actual,
        "limit": check.limit,
        "unit": check.unit,
        "pass": check.passed,
        "severity": check.severity,
        "excess": check.excess,
        "why": check.why,
        "remedy": check.remedy,
    }


def question_inputs(question: Question) -> Mapping[str, object]:
    """Everything that the answer rests on."""
    load, setting = question.load, question.setting
    return {
        "model": load.model.id,
        "workload": load.workload,
        "budget_usd": question.budget_usd,
        "target_tokens_per_s": question.target_tokens_per_s,
        "concurrency": load.concurrency,
        "input_tokens": load.input_tokens,
        "output_tokens": load.output_tokens,
        "precision": load.precision,
        "engine": load.engine,
        "circuit": str(setting.circuit),
        "circuit_continuous_w": setting.circuit.continuous_w,
        "min_lanes": setting.min_lanes,
        "needs_ecc": setting.needs_ecc,
        "room_cooling_w": setting.room_cooling_w,
        "max_noise_db": setting.max_noise_db,
        "max_cards": question.limits.max_cards,
        "accelerators": question.limits.accelerators,
        "power_points": question.limits.power_points,
        "use": question.use,
        "currency": "USD",
    }

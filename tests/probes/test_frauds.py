"""Machines that are not what was sold: small edits of honest recordings, and what the rules say of each."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.accelerators import by_id
from advisor.probes.assess import assess
from advisor.probes.document import read_probe
from advisor.probes.record import Conditions, Gpu, Measurement, ProbedMachine
from advisor.probes.verdict import RATE_UNITS, verdict


def rows_of(name: str) -> list[dict[str, str]]:
    lines = (Path(__file__).parent / name).read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


FRAUDS = rows_of("frauds.csv")
HONEST = {f"{row['n']}x{row['board']}": row for row in rows_of("honest_boards.csv")}
RECORDED = ["1xh100-sxm", *(f"{n}xh200-sxm" for n in (1, 2, 4, 8))]


def honest(name: str) -> tuple[ProbedMachine, list[Measurement]]:
    """A machine and what was measured on it: a recording of the catalog, or one composed of published facts."""
    if name not in HONEST:
        number, _, board = name.partition("x")
        probe = read_probe(Path(f"{board}-x{number}"))
        return probe.machine, [m for m in probe.measurements if m.step]
    row = HONEST[name]
    gpu = gpu_of(row)
    machine = ProbedMachine(
        cpu="AMD EPYC 9654",
        torch="2.11.0",
        gpus=tuple(gpu.model_copy(update={"index": i}) for i in range(int(row["n"]))),
    )
    return machine, [*measured_alone(row, gpu), *measured_together(row)]


def figure(row: dict[str, str], column: str, unit: float = 1e9) -> float | None:
    return float(row[column]) * unit if row[column] else None


def gpu_of(row: dict[str, str]) -> Gpu:
    board = by_id(row["board"])
    return Gpu(
        index=0,
        name=row["name"],
        vendor=board.vendor,
        accelerator=board.id,
        pci_device_id=row["pci_id"],
        compute_capability=row["cc"],
        num_sms=int(row["sms"]),
        memory_bytes=figure(row, "gib", 2**30),
        memory_used_bytes=5e8,
        visible_memory_bytes=figure(row, "visible_gib", 2**30),
        bus_width_bits=int(row["bus_bits"]) if row["bus_bits"] else None,
        max_sm_clock_hz=figure(row, "sm_mhz", 1e6),
        max_memory_clock_hz=figure(row, "memory_mhz", 1e6),
        power_limit_w=figure(row, "power_w", 1.0),
        power_default_w=figure(row, "power_w", 1.0),
        ecc_enabled=bool(int(row["ecc"])) if row["ecc"] else None,
        ecc_uncorrected=0,
        mig_enabled=False,
        virtualization="passthrough",
        pcie_max_generation=board.pcie_generation,
        pcie_max_width=board.pcie_lanes,
        num_nvlinks=int(row["links"]) if row["links"] else None,
        num_other_processes=0,
        pcie_replays=(3, 3),
        remapped_rows=(0, 0),
        xids=(),
    )


def measured_alone(row: dict[str, str], gpu: Gpu) -> list[Measurement]:
    """Measurements of each GPU by itself, with the state it was in."""
    sm = gpu.max_sm_clock_hz
    memory = gpu.max_memory_clock_hz
    seen = Conditions(
        sm_clock_hz=(0.6 * sm, 0.99 * sm) if sm else None,
        memory_clock_hz=(0.97 * memory, 0.975 * memory) if memory else None,
        temperature_c=(40.0, 66.0),
        throttle_reasons=("sw_power_cap",),
        pcie_generation=gpu.pcie_max_generation,
        pcie_width=gpu.pcie_max_width,
        num_samples=50,
    )
    names = {"read": "memory.read", "copy": "memory.copy", "triad": "memory.triad", "h2d": "host_link.h2d"}
    names |= {column: f"compute.{column}.{row['format']}" for column in ("matmul", "sustained")}
    found = []
    for i in range(int(row["n"])):
        place = {"gpu": i, "step": f"gpu{i}/rates"}
        found.append(Measurement(id="memory.touch", value=0.985, required=0.95, source="rule", **place))
        for column, check in names.items():
            unit, power = ("flop/s", 1e12) if check.startswith("compute") else ("bytes/s", 1e9)
            rate = {"value": figure(row, column, power), "unit": unit, "conditions": seen, **place}
            instruments = ("torch", "triton") if check.startswith("memory") else ("torch",)
            found += [Measurement(id=check, instrument=i, pattern="honest", **rate) for i in instruments]
        right = {"required": 1.0, "operator": "<=", "source": "rule", "status": "pass", "gpu": i}
        step = {"step": f"gpu{i}/truth"}
        found.append(Measurement(id=f"truth.product.{row['format']}", value=0.4, **right, **step))
        found.append(
            Measurement(id=f"truth.repeat.{row['format']}", value=0.0, **right | {"required": 0.0}, **step)
        )
        for check, words in (("truth.sum", "right"), ("truth.copy", "intact")):
            found.append(Measurement.ruled(check, words, words, True, gpu=i, **step))
    return found


def measured_together(row: dict[str, str]) -> list[Measurement]:
    """Copies of all pairs and the sum of all."""
    number = int(row["n"])
    if number == 1:
        return []
    found = [
        Measurement(
            id="peer.copy",
            pattern=f"2 GPUs, {i} to {j} of {number}, {row['path']}",
            value=figure(row, "pair"),
            unit="bytes/s",
            step="group/peer",
        )
        for i in range(number)
        for j in range(number)
        if i != j
    ]
    pattern = f"{number} ranks, {row['algorithm']}, 1 GiB"
    total = {"value": figure(row, "all_reduce"), "unit": "bytes/s", "step": "group/collective"}
    return [*found, Measurement(id="collective.all_reduce", pattern=pattern, **total)]


def judge_recording(name: str, is_ordered: bool = True) -> list[Measurement]:
    machine, found = honest(name)
    board = by_id(name.partition("x")[2]) if is_ordered else None
    return assess(machine, found, board, len(machine.gpus) if is_ordered else None)


@pytest.mark.parametrize("name", [*RECORDED, *HONEST])
@pytest.mark.parametrize("is_ordered", [True, False])
def test_honest_machines_pass(name, is_ordered):
    checks = judge_recording(name, is_ordered)
    assert [(m.id, m.gpu, m.value, m.expected, m.note) for m in checks if m.status in ("warn", "fail")] == []
    assert verdict(checks) == "pass"


HONEST_SPREADS = (
    r"host_link\.h2d$ 0.91",
    r"compute\.matmul_shape 0.944",
    "memory 0.97",
    "compute.matmul 0.98",
)


def second_gpu(found: list[Measurement], spreads: tuple[str, ...]) -> list[Measurement]:
    """The measurements of another GPU of one machine, slower by what honest GPUs differ."""
    factors = [spread.rsplit(" ", 1) for spread in spreads]

    def slower(m: Measurement) -> Measurement:
        if not isinstance(m.value, float) or m.unit not in RATE_UNITS:
            return m
        factor = next((float(f) for expression, f in factors if re.match(expression, m.id)), 1.0)
        return m.model_copy(update={"value": factor * m.value})

    return [slower(m).model_copy(update={"gpu": 1, "step": m.step.replace("gpu0", "gpu1")}) for m in found]


@pytest.mark.parametrize("spreads", [(), HONEST_SPREADS])
def test_two_honest_h100s_pass(spreads):
    """Two H100s of one machine differed by 9 % in copies from the host and by 5.6 % in one shape."""
    machine, found = honest("1xh100-sxm")
    own = [m for m in found if m.gpu == 0]
    row = {"n": "2", "path": "peer access", "pair": "372", "algorithm": "ring", "all_reduce": "314"}
    both = [*own, *second_gpu(own, spreads), *measured_together(row)]
    gpus = tuple(machine.gpus[0].model_copy(update={"index": i, "num_nvlinks": None}) for i in range(2))
    checks = assess(machine.model_copy(update={"gpus": gpus}), both, by_id("h100-sxm"), 2)
    assert [(m.id, m.gpu, m.value, m.expected) for m in checks if m.status in ("warn", "fail")] == []
    worse = (r"host_link\.h2d$ 0.75",)
    both = [*own, *second_gpu(own, worse), *measured_together(row)]
    checks = assess(machine.model_copy(update={"gpus": gpus}), both, by_id("h100-sxm"), 2)
    assert verdict(checks) == "fail"


def value_of(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def tamper(fraud: dict[str, str]) -> list[Measurement]:
    """The rules' answer to the edited recording."""
    machine, found = honest(fraud["base"])
    gpus = list(machine.gpus)
    order = fraud["base"].partition("x")[2]
    number = len(machine.gpus)
    for edit in fraud["edits"].split("; "):
        rate = re.fullmatch(r"(gpu0 )?(\S+) ([*=]) (\S+)", edit)
        name, _, text = edit.partition("=")
        place, _, key = name.partition(".")
        if rate:
            first, expression, operator, factor = rate.groups()
            found = [
                m.model_copy(update={"value": float(factor) * (m.value if operator == "*" else 1.0)})
                if isinstance(m.value, float) and re.match(expression, m.id) and (not first or m.gpu == 0)
                else m
                for m in found
            ]
        elif place in ("gpus", "gpu0"):
            change = {key: value_of(text)}
            gpus = [g.model_copy(update=change) if place == "gpus" or g.index == 0 else g for g in gpus]
        elif place == "seen":
            found = [
                m.model_copy(update={"conditions": m.conditions.model_copy(update={key: value_of(text)})})
                if m.conditions
                else m
                for m in found
            ]
        elif name == "path":
            found = [m.model_copy(update={"pattern": m.pattern.replace("peer access", text)}) for m in found]
        elif name == "drop":
            found = [m for m in found if not re.match(text, m.id)]
        elif name == "lost":
            found.append(Measurement(id="step.x", gpu=0, status="not_measured", note=text, step="gpu0/x"))
        elif name == "num":
            number = int(text)
        else:
            assert name == "order", edit
            order = text
    ordered = None if order == "none" else by_id(order)
    machine = machine.model_copy(update={"gpus": tuple(gpus)})
    return assess(machine, found, ordered, number if ordered else None)


@pytest.mark.parametrize("fraud", FRAUDS, ids=[fraud["name"] for fraud in FRAUDS])
def test_no_fraud_passes(fraud):
    checks = tamper(fraud)
    assert verdict(checks) == fraud["verdict"], [(m.id, m.status, m.note) for m in checks]
    telling = [m for m in checks if m.id.startswith(fraud["check"]) and m.status == fraud["verdict"]]
    assert telling, f"{fraud['check']} does not say it"
    assert all(m.title and m.purpose and m.remediation for m in telling)


def test_frauds_are_many_and_of_every_class():
    assert len(FRAUDS) >= 40
    assert len({fraud["name"] for fraud in FRAUDS}) == len(FRAUDS)
    assert {fraud["base"] for fraud in FRAUDS} >= set(HONEST)


def test_the_documented_table_is_this_one(request):
    """`--update-golden` rewrites it."""
    file = Path(__file__).parents[2] / "docs" / "probes.md"
    head, _, rest = file.read_text(encoding="utf-8").partition("<!-- begin frauds -->\n")
    table, _, tail = rest.partition("<!-- end frauds -->")
    rows: dict[tuple[str, str], list[str]] = {}
    for fraud in FRAUDS:
        rows.setdefault((fraud["verdict"], fraud["check"]), []).append(fraud["name"])
    lines = [
        f"| {v.upper()} | `{check}` | {'; '.join(names)} |" for (v, check), names in sorted(rows.items())
    ]
    text = "\n".join(["", "| verdict | said by | machine |", "| --- | --- | --- |", *lines, "", ""])
    if request.config.getoption("--update-golden"):
        file.write_text(f"{head}<!-- begin frauds -->\n{text}<!-- end frauds -->{tail}", encoding="utf-8")
    else:
        assert table == text


HALVED = (
    r"memory\.(read|copy|triad)",
    r"compute\.matmul",
    r"compute\.sustained",
    "host_link",
    "peer",
    "collective",
)


@pytest.mark.parametrize("base", [*RECORDED[:3], *HONEST])
@pytest.mark.parametrize("order", ["", "; order=none"], ids=["ordered", "not ordered"])
def test_no_board_passes_with_half_of_any_rate_or_without_it(base, order):
    is_group = not base.startswith("1x")
    for rate in HALVED if is_group else HALVED[:4]:
        wider = 0.5 if rate not in ("peer", "collective") else 0.2
        for edit in (f"{rate} * {wider}", f"drop={rate}"):
            assert verdict(tamper({"base": base, "edits": edit + order})) in ("warn", "fail"), edit

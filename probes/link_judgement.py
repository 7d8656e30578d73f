"""Links of a pasted report (nvbandwidth, dcgmi diag, nvidia-smi topo -m) judged like those of a probe."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from advisor.catalog.formats.link_report import HealthCheck, LinkRate, LinkReport
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import BITS_PER_BYTE, GIGA
from advisor.probes.fabric import fabric_of, pair_rates
from advisor.probes.network import parse_network
from advisor.probes.record import Gpu, LinkTopology, Measurement, ProbedMachine, Status
from advisor.probes.topology import read_matrix
from advisor.probes.verdict import WORST_FIRST, judge, verdict

STATUSES: Final[Mapping[str, Status]] = {
    "pass": "pass",
    "fail": "fail",
    "warn": "warn",
    "skip": "not_measured",
}
_ACROSS_SOCKETS: Final = 0.7
"""Rate of a PCIe copy across two processors over that within one: healthy hosts lose up to 30 % (probes.fabric)."""
_PORT_FRACTION: Final = 0.9
"""Fraction of a port's rate that one test between two hosts must reach. Own assumption: headers take 2 to 6 %; at 0.95
ports of 400 Gb/s with small frames fail."""
_SLOW_LINKS: Final = ("SYS", "NODE")
"""Links that leave a processor's root complex: copies between such GPUs cross the processor or the socket."""


@dataclass(frozen=True, slots=True)
class JudgedLinks:
    """Report about links with verdicts."""

    accelerator: str
    measurements: tuple[Measurement, ...]
    checks: tuple[HealthCheck, ...]
    topology: LinkTopology | None
    remarks: tuple[str, ...]
    """Sentences about how the GPUs are joined and what follows from it."""
    unread: tuple[str, ...]

    @property
    def status(self) -> Status:
        """Worst status of all rates and checks; info if nothing was judged."""
        found = {STATUSES[check.status] for check in self.checks} | {verdict(self.measurements)}
        return next((status for status in WORST_FIRST if status in found), "info")


def judge_links(report: LinkReport, accelerator: Accelerator | None, network: str = "") -> JudgedLinks:
    """Return a report's rates with what they should be; without an accelerator nothing is expected, except of a port
    whose rate `network` names.

    Assumes: the GPUs are numbered as in the report, and peers reach each other directly if the accelerator can.
    Source: probes.verdict.
    """
    topology = read_matrix(report.matrix) if report.matrix else None
    ports = [_judge_port(rate, accelerator, network) for rate in report.rates if rate.check == "network.port"]
    num_gpus = _num_gpus(report, topology)
    plain = [measurement_of(rate, num_gpus) for rate in report.rates if rate.check != "network.port"]
    machine = None
    if topology is not None:
        gpus = tuple(Gpu(index=number) for number in range(num_gpus))
        machine = ProbedMachine(gpus=gpus, topology=topology)
    judged = excuse_sockets(judge(plain, accelerator, machine), accelerator)
    return JudgedLinks(
        accelerator=accelerator.id if accelerator else "",
        measurements=(*judged, *ports),
        checks=report.checks,
        topology=topology,
        remarks=_remarks(topology, accelerator, plain),
        unread=report.unread,
    )


def _judge_port(rate: LinkRate, accelerator: Accelerator | None, network: str) -> Measurement:
    """Return a rate between two hosts judged by the port of a described network, or else by the one that an
    accelerator's node has for each; without a recorded port nothing is expected."""
    described = parse_network(network).gbit_per_s * GIGA / BITS_PER_BYTE
    usual = accelerator and (accelerator.scale_out_bytes_per_s or accelerator.assumed_network_bytes_per_s)
    port = described or usual
    found = Measurement(
        id=rate.check,
        instrument="pasted",
        pattern=rate.test,
        value=rate.bytes_per_s,
        unit="bytes/s",
        status="info",
    )
    if not port:
        return found
    status: Status = "pass" if rate.bytes_per_s >= _PORT_FRACTION * port else "fail"
    return found.model_copy(
        update={
            "expected": port,
            "required": _PORT_FRACTION * port,
            "status": status,
            "note": "" if described else "one port for each accelerator of its node is taken",
            "source": "described network" if described else "record of the accelerator",
        }
    )


def _num_gpus(report: LinkReport, topology: LinkTopology | None) -> int:
    numbers = [number for rate in report.rates for number in (rate.source, rate.target) if number is not None]
    return max([*(number + 1 for number in numbers), topology.num_gpus if topology else 0])


def measurement_of(rate: LinkRate, num_gpus: int) -> Measurement:
    """Return a pasted copy rate as a measurement, as a probe would record it."""
    if rate.check == "peer.copy":
        pattern = f"2 GPUs, {rate.source} to {rate.target} of {num_gpus}, {rate.test}"
        gpu = None
    else:
        pattern = rate.test
        gpu = rate.target if rate.source is None else rate.source
    return Measurement(
        id=rate.check, gpu=gpu, instrument="pasted", pattern=pattern, value=rate.bytes_per_s, unit="bytes/s"
    )


def excuse_sockets(measurements: list[Measurement], accelerator: Accelerator | None) -> list[Measurement]:
    """Return the measurements; PCIe pairs that are slower than the fastest by what a second processor costs pass."""
    fabric = fabric_of(accelerator) if accelerator else None
    if accelerator is None or (fabric is not None and fabric.topology != "bridge"):
        return measurements
    rates = pair_rates(measurements)
    passed = [m for m in measurements if m.id == "peer.copy" and m.status == "pass"]
    if not rates or not passed:
        return measurements
    least = _ACROSS_SOCKETS * max(rates.values())
    note = "slower than the fastest pair as copies across two processors are"
    return [
        m.model_copy(update={"status": "pass", "note": note, "remediation": ""})
        if m.id == "peer.copy" and m.status in ("warn", "fail") and float(m.value or 0.0) >= least
        else m
        for m in measurements
        if not m.id.startswith("health.peers")
    ]


def _remarks(
    topology: LinkTopology | None, accelerator: Accelerator | None, measurements: list[Measurement]
) -> tuple[str, ...]:
    """Return what the link matrix says about groups, and slow pairs of the rates."""
    found = []
    if topology is not None:
        linked = {(max(pair), min(pair)) for pair in topology.nvlinked_pairs()}
        every = topology.num_gpus * (topology.num_gpus - 1) // 2
        fabric = fabric_of(accelerator) if accelerator else None
        if fabric is not None and fabric.topology != "bridge" and len(linked) < every:
            found.append(
                f"{len(linked)} of {every} pairs have {fabric.kind.upper()}: on this accelerator all should"
            )
        slow = [
            (i, j)
            for i in range(topology.num_gpus)
            for j in range(i)
            if topology.links[i][j] in _SLOW_LINKS and (i, j) not in linked
        ]
        if slow:
            between = sum(topology.links[i][j] == "SYS" for i, j in slow)
            advice = (
                "keep tensor parallelism within the others"
                if len(slow) < every
                else f"{between} cross the socket (SYS), keep tensor parallelism within the others"
                if 0 < between < every
                else "tensor parallelism is slow here, stages of a pipeline exchange less"
            )
            found.append(
                f"{len(slow)} of {every} pairs cross a processor or the socket (SYS, NODE): {advice}"
            )
    rates = pair_rates(measurements)
    if len(rates) > 1 and min(rates.values()) < 0.9 * max(rates.values()):
        slowest = min(rates, key=lambda pair: rates[pair])
        found.append(f"the pairs differ; the slowest is {slowest[0]}-{slowest[1]}")
    return tuple(found)

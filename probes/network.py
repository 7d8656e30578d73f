"""Network ports of a host, and whether they are the network that was ordered."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from advisor.catalog.schema import Accelerator
from advisor.catalog.units import BITS_PER_BYTE, GIB, GIGA, MEGA
from advisor.probes.expectations import Expectation
from advisor.probes.fabric import expected_all_reduce
from advisor.probes.record import Basis, Measurement, NetworkPort, ProbedMachine
from advisor.probes.verdict import bands_of, judge_rate, with_text

Kind = Literal["InfiniBand", "Ethernet", "EFA", ""]
_RDMA: Final = Path("/sys/class/infiniband")
_INTERFACES: Final = Path("/sys/class/net")
_KINDS: Final[tuple[tuple[str, Kind], ...]] = (
    (r"infiniband|\bib\b|\b[hnxe]dr\b", "InfiniBand"),
    (r"\befa\b", "EFA"),
    (r"roce|ethernet|\btcp\b|\bgbe\b", "Ethernet"),
)
_GENERATION_GBIT: Final = {"edr": 100.0, "hdr": 200.0, "ndr": 400.0, "xdr": 800.0}
"""Rate of one InfiniBand port of four lanes [Gb/s] by generation (InfiniBand Trade Association, roadmap)."""
_PORTS: Final = re.compile(r"\b(\d+)\s*[x×]\s*(\d+)(?:\s*g|\b)")
_RATE: Final = re.compile(r"\b(\d+)\s*g")
_RATE_TOLERANCE: Final = 0.03
_OF_PORTS: Final = 0.92
"""Bus bandwidth of a ring over the rate of the ports: 46 to 48 of 50 GB/s for a port of 400 Gb/s (NVIDIA/nccl-tests
issue 290)."""
_RINGS: Final = ("collective.all_reduce", "collective.all_gather", "collective.reduce_scatter")
_SOCKETS: Final = 0.3
"""Fraction of the expected rate below which sockets are suspected: half of the ports leave more. Own assumption."""


@dataclass(frozen=True, slots=True)
class OrderedNetwork:
    """Network that was ordered for a machine, as read from words such as `InfiniBand 8x400Gb`."""

    text: str
    kind: Kind
    num_ports: int
    gbit_per_s: float
    """Rate of a port [Gb/s]; 0 if the words name none."""


def parse_network(text: str) -> OrderedNetwork:
    """Return the network that a text names: its kind, ports and rate; one port where no number is named."""
    words = text.lower()
    kinds: list[Kind] = [kind for pattern, kind in _KINDS if re.search(pattern, words)]
    ports = _PORTS.search(words)
    rate = _RATE.search(words)
    named = next((gbit for name, gbit in _GENERATION_GBIT.items() if re.search(rf"\b{name}\b", words)), 0.0)
    gbit = float(ports[2]) if ports else float(rate[1]) if rate else named
    return OrderedNetwork(text, kinds[0] if kinds else "", int(ports[1]) if ports else 1, gbit)


def read_ports(rdma: Path = _RDMA, interfaces: Path = _INTERFACES) -> tuple[NetworkPort, ...] | None:
    """Return the network ports that Linux shows; None on a system without its folders.

    An interface whose card is among the RDMA devices is listed as that device alone.
    """
    if not interfaces.is_dir():
        return None
    found = [_rdma_port(port) for port in sorted(rdma.glob("*/ports/*"))]
    for interface in sorted(interfaces.iterdir()):
        device = interface / "device"
        if not device.exists() or (device / "infiniband").exists():
            continue
        speed = _text(interface / "speed")
        rate = float(speed) * MEGA / BITS_PER_BYTE if speed.isdigit() else None
        is_up = _text(interface / "operstate") == "up"
        # Such a name holds the card's address, which identifies its owner.
        name = "enx" if interface.name.startswith("enx") else interface.name
        found.append(NetworkPort(name=name, link_layer="Ethernet", bytes_per_s=rate, is_active=is_up))
    return tuple(found)


def _rdma_port(folder: Path) -> NetworkPort:
    rate = re.match(r"([\d.]+) Gb/sec", _text(folder / "rate"))
    return NetworkPort(
        name=folder.parent.parent.name,
        link_layer=_text(folder / "link_layer"),
        bytes_per_s=float(rate[1]) * GIGA / BITS_PER_BYTE if rate else None,
        is_active="ACTIVE" in _text(folder / "state"),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def check_network(
    machine: ProbedMachine, ordered: str, rates: Sequence[Measurement] = ()
) -> list[Measurement]:
    """Check the ports against the order, and return the rates between hosts; without an order nothing is checked.

    An order of which no rate between hosts was measured warns.
    """
    if not ordered:
        return list(rates)
    order = parse_network(ordered)
    how: dict[str, Any] = {"id": "identity.network", "instrument": "driver", "source": "order"}
    how |= {"expected": ordered, "required": ordered, "operator": "=="}
    checked = list(rates) or [_rate_not_measured()]
    if machine.network_ports is None:
        unknown = Measurement(status="warn", note="the host's network ports were not shown", **how)
        return [with_text(unknown), *checked]
    active = [port for port in machine.network_ports if port.is_active is not False]
    fitting = [port for port in active if _fits(port, order)]
    value = describe_ports(active)
    is_right = len(fitting) >= order.num_ports
    missing = "" if is_right else f"{len(fitting)} of {order.num_ports} ports are what was ordered"
    check = Measurement(value=value, status="pass" if is_right else "fail", note=missing, **how)
    return [with_text(check), *checked]


def judge_port(bytes_per_s: float, test: str, ordered: str) -> Measurement:
    """Return the rate of one port between two hosts, judged by the ordered rate of a port if there is one."""
    order = parse_network(ordered)
    found = Measurement(
        id="network.rate", instrument="pasted", pattern=test, value=bytes_per_s, unit="bytes/s"
    )
    port = order.gbit_per_s * GIGA / BITS_PER_BYTE
    return _with_verdict(found, Expectation(port, "similar", "order: the rate of a port")) if port else found


def judge_between_hosts(
    run: Measurement, num_bytes: int, ranks_per_host: int, ordered: str, accelerator: Accelerator | None
) -> Measurement:
    """Return the bus bandwidth of a collective across hosts, judged by the ordered rate of a host's ports.

    Rings through all ports reach the sum of their rates, of which headers and protocol take 8 %. One rank uses one
    port. Links within a host may be slower than its ports. Messages below 1 GiB get more room, and other collectives
    than those of rings are not judged.
    """
    order = parse_network(ordered)
    found = run.model_copy(
        update={"id": "network.rate", "pattern": f"{run.id.partition('.')[2]}, {run.pattern}"}
    )
    ports = order.gbit_per_s * GIGA / BITS_PER_BYTE * min(order.num_ports, ranks_per_host)
    if not ports or run.id not in _RINGS:
        return found
    kind: Basis = "estimate" if num_bytes >= GIB else "host"
    expected = Expectation(_OF_PORTS * ports, kind, f"order: {_OF_PORTS:.0%} of a host's ports in a ring")
    within = accelerator and expected_all_reduce(accelerator, ranks_per_host, "ring", False)
    if within and ranks_per_host > 1 and within.value < expected.value:
        expected = replace(expected, value=within.value, source=within.source)
    return _with_verdict(found, expected)


def _with_verdict(rate: Measurement, expectation: Expectation) -> Measurement:
    """Return a rate between hosts with its verdict."""
    status = judge_rate(float(rate.value or 0.0), expectation)
    required = bands_of(rate.id, expectation.kind)[1] * expectation.value
    told: dict[str, Any] = {"expected": expectation.value, "required": required, "operator": ">="}
    told |= {"source": expectation.source, "basis": expectation.kind, "status": status}
    is_slow = status == "fail" and float(rate.value or 0.0) < _SOCKETS * expectation.value
    note = "as if sockets carried the data instead of RDMA" if is_slow else ""
    return with_text(rate.model_copy(update=told | {"note": note}))


def _rate_not_measured() -> Measurement:
    note = "a probe of one host moves nothing over its network"
    remediation = "Run ib_write_bw or nccl-tests between two of the hosts before you pay for their network."
    how: dict[str, Any] = {"note": note, "remediation": remediation, "source": "rule"}
    return with_text(Measurement(id="network.rate", status="warn", **how))


def _fits(port: NetworkPort, order: OrderedNetwork) -> bool:
    is_efa = port.name.startswith(("efa", "rdmap")) or port.link_layer == "Unspecified"
    kind = "EFA" if is_efa else port.link_layer
    if order.kind and kind != order.kind:
        return False
    wanted = (1 - _RATE_TOLERANCE) * order.gbit_per_s * GIGA / BITS_PER_BYTE
    return port.bytes_per_s is None or port.bytes_per_s >= wanted


def describe_ports(ports: Sequence[NetworkPort]) -> str:
    """Return ports in words, equal ones together, e.g. `8 x 400 Gb/s InfiniBand`."""
    kinds: dict[tuple[str, float | None], int] = {}
    for port in ports:
        key = (port.link_layer or "unknown", port.bytes_per_s)
        kinds[key] = kinds.get(key, 0) + 1
    parts = [
        f"{number} x {rate * BITS_PER_BYTE / GIGA:.0f} Gb/s {layer}" if rate else f"{number} x {layer}"
        for (layer, rate), number in kinds.items()
    ]
    return ", ".join(parts) or "no active port"

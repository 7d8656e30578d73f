"""Network ports of a host, and whether they are the network that was ordered."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from advisor.catalog.units import BITS_PER_BYTE, GIGA, MEGA
from advisor.probes.record import Measurement, NetworkPort, ProbedMachine
from advisor.probes.verdict import with_text

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


def check_network(machine: ProbedMachine, ordered: str) -> list[Measurement]:
    """Check the ports against the order, and say that no rate between hosts was measured; nothing without an order."""
    if not ordered:
        return []
    order = parse_network(ordered)
    how: dict[str, Any] = {"id": "identity.network", "instrument": "driver", "source": "order"}
    how |= {"expected": ordered, "required": ordered, "operator": "=="}
    if machine.network_ports is None:
        unknown = Measurement(status="warn", note="the host's network ports were not shown", **how)
        return [with_text(unknown), _rate_not_measured()]
    active = [port for port in machine.network_ports if port.is_active is not False]
    fitting = [port for port in active if _fits(port, order)]
    value = describe_ports(active)
    is_right = len(fitting) >= order.num_ports
    missing = "" if is_right else f"{len(fitting)} of {order.num_ports} ports are what was ordered"
    check = Measurement(value=value, status="pass" if is_right else "fail", note=missing, **how)
    return [with_text(check), _rate_not_measured()]


def _rate_not_measured() -> Measurement:
    note = (
        "a probe of one host moves nothing over its network: run ib_write_bw or nccl-tests between two hosts"
    )
    return with_text(Measurement(id="network.rate", status="warn", note=note, source="rule"))


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

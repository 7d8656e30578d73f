"""Network ports in the pasted output of `ibstat`, `ibstatus`, `ibv_devinfo` and `lspci`."""

import re
from collections.abc import Iterator
from typing import Final

from advisor.catalog.formats.launcher_lines import without_prefixes
from advisor.catalog.units import BITS_PER_BYTE, GIGA
from advisor.probes.record import NetworkPort

_DEVICE: Final = re.compile(
    r"^\s*(?:CA '([\w.-]+)'|hca_id:\s*([\w.-]+)|Infiniband device '([\w.-]+)' port \d+ status:)", re.MULTILINE
)
_PORT: Final = re.compile(r"^\s*[Pp]ort:?\s+\d+:?\s*$", re.MULTILINE)
_STATE: Final = re.compile(r"^\s*[Ss]tate:\s+(?:\d+: )?(?:PORT_)?(\w+)", re.MULTILINE)
_RATE: Final = re.compile(r"^\s*[Rr]ate:\s+([\d.]+)", re.MULTILINE)
_SPEED: Final = re.compile(r"active_speed:\s+([\d.]+) Gbps")
_WIDTH: Final = re.compile(r"active_width:\s+(\d+)X")
_LAYER: Final = re.compile(r"^\s*[Ll]ink[_ ]layer:\s+(\w+)", re.MULTILINE)
_PCI: Final = re.compile(
    r"^(?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\s+"
    r"(Infiniband controller|Ethernet controller|Network controller|3D controller|VGA compatible controller)"
    r"(?: \[[0-9a-f]{4}\])?:\s*(.*)$",
    re.MULTILINE,
)
_PCI_ID: Final = re.compile(r"\[(10de:[0-9a-f]{4})\]")


def is_port_list(text: str) -> bool:
    """Whether a text is `ibstat`, `ibstatus` or `ibv_devinfo`."""
    return bool(_DEVICE.search(text))


def is_pci_list(text: str) -> bool:
    """Whether a text is `lspci`."""
    return bool(_PCI.search("\n".join(without_prefixes(text))))


def read_port_list(text: str) -> tuple[NetworkPort, ...]:
    """Return the ports of `ibstat`, `ibstatus` or `ibv_devinfo` (rates with its option -v)."""
    plain = "\n".join(without_prefixes(text))
    heads = list(_DEVICE.finditer(plain))
    ends = [*(head.start() for head in heads[1:]), len(plain)]
    found: list[NetworkPort] = []
    for head, end in zip(heads, ends, strict=True):
        name = next(filter(None, head.groups()))
        found += _ports(name, plain[head.end() : end])
    return tuple(found)


def _ports(name: str, block: str) -> Iterator[NetworkPort]:
    parts = _PORT.split(block)
    for part in parts[1:] or parts:
        state = _STATE.search(part)
        layer = _LAYER.search(part)
        yield NetworkPort(
            name=name,
            link_layer=layer[1] if layer else "",
            bytes_per_s=_rate(part),
            is_active=state[1].lower() == "active" if state else None,
        )


def _rate(part: str) -> float | None:
    rate = _RATE.search(part)
    if rate:
        return float(rate[1]) * GIGA / BITS_PER_BYTE
    speed = _SPEED.search(part)
    width = _WIDTH.search(part)
    return float(speed[1]) * int(width[1]) * GIGA / BITS_PER_BYTE if speed and width else None


def read_pci_list(text: str) -> tuple[tuple[str, ...], tuple[NetworkPort, ...]]:
    """Return the PCI ids of NVIDIA's GPUs in `lspci -nn` and the network controllers, of which no state is known.

    A card that can be both is listed as what its firmware was set to: an Ethernet controller is no InfiniBand port.
    """
    gpus: list[str] = []
    ports: list[NetworkPort] = []
    for kind, name in _PCI.findall("\n".join(without_prefixes(text))):
        if kind in ("3D controller", "VGA compatible controller"):
            gpus += _PCI_ID.findall(name)
        else:
            layer = "InfiniBand" if kind.startswith("Infiniband") else "Ethernet"
            ports.append(NetworkPort(name=name.partition(" (rev")[0], link_layer=layer))
    return tuple(gpus), tuple(ports)

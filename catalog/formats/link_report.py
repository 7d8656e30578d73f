"""Rates of links and results of health checks, as tools of GPU vendors report them."""

from dataclasses import dataclass
from typing import Literal

LinkCheck = Literal["peer.copy", "host_link.h2d", "host_link.d2h", "network.port"]


@dataclass(frozen=True, slots=True)
class LinkRate:
    """One measured copy rate."""

    check: LinkCheck
    source: int | None
    """Number of the GPU that holds the data; None for the host."""
    target: int | None
    """Number of the GPU that gets the data; None for the host."""
    bytes_per_s: float
    test: str
    """Name of the test in its own program."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """Result of one check of a diagnostic, in the words of its program."""

    name: str
    status: Literal["pass", "fail", "warn", "skip"]
    detail: str = ""
    program: Literal["dcgmi", "nvidia-smi", "nvbandwidth"] = "dcgmi"
    """Program whose check it is."""


@dataclass(frozen=True, slots=True)
class LinkReport:
    """Content of one report about the links and the health of a machine's GPUs."""

    device: str
    """Name of the GPU as its driver states it; empty if the report does not."""
    pci_device_ids: tuple[str, ...] = ()
    """PCI vendor and device id of each GPU, e.g. 10de:2330; none if the report does not state them."""
    rates: tuple[LinkRate, ...] = ()
    checks: tuple[HealthCheck, ...] = ()
    matrix: str = ""
    """Text of a link matrix (`nvidia-smi topo -m`); empty if there is none."""
    unread: tuple[str, ...] = ()
    """Names of tests that the report has and that are not judged."""

    def with_report(self, other: "LinkReport") -> "LinkReport":
        """Return one report of both, of the same machine."""
        return LinkReport(
            self.device or other.device,
            self.pci_device_ids or other.pci_device_ids,
            self.rates + other.rates,
            self.checks + other.checks,
            self.matrix or other.matrix,
            self.unread + other.unread,
        )

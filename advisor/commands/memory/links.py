"""Links that the cache of one sequence could cross, as typed: the accelerator's own, or rates."""

from dataclasses import dataclass
from typing import Final

from advisor.ask.measures import parse_bytes
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Accelerator
from advisor.simulator.host_link import host_link_bytes_per_s

_BITS: Final = 8.0


@dataclass(frozen=True, slots=True)
class CacheLink:
    """A way for the cache of one sequence to another machine or memory."""

    name: str
    bytes_per_s: float


def cache_links(text: str, accelerator: Accelerator) -> tuple[CacheLink, ...]:
    """Return the links of a list: nvlink, pcie and network are those of the accelerator, anything else is a rate.

    Raises: AdvisorError: a rate cannot be read, or the accelerator has no such link.
    """
    return tuple(_link_of(word.strip(), accelerator) for word in text.split(",") if word.strip())


def _link_of(word: str, accelerator: Accelerator) -> CacheLink:
    lower = word.lower()
    fabric = accelerator.scale_up
    if lower in ("nvlink", "scale-up"):
        return CacheLink(
            "scale-up link", _check_rate(fabric.bytes_per_s if fabric else None, word, accelerator)
        )
    if lower == "network":
        rate = accelerator.scale_out_bytes_per_s or accelerator.assumed_network_bytes_per_s
        return CacheLink("one port of its node's network", _check_rate(rate, word, accelerator))
    if lower == "pcie":
        try:
            return CacheLink("PCIe to the host, as copies reach it", host_link_bytes_per_s(accelerator))
        except InfeasibleError as error:
            raise AdvisorError(error.what, fix="--link 26GB/s") from None
    if "/s" not in lower and not lower.endswith("bps"):
        raise AdvisorError(
            f"--link {word}: not a link",
            why="it is nvlink, pcie, network, or a rate",
            fix="--link nvlink,pcie,50GB/s,400Gb/s",
        )
    if word.endswith(("b/s", "bit/s", "bps")):
        number = word.removesuffix("bps").removesuffix("bit/s").removesuffix("b/s")
        return CacheLink(word, parse_bytes(f"{number}B", "--link") / _BITS)
    return CacheLink(word, parse_bytes(word.removesuffix("/s"), "--link"))


def _check_rate(rate: float | None, word: str, accelerator: Accelerator) -> float:
    """Return the rate of a link. Raises: AdvisorError: the record states none."""
    if not rate:
        raise AdvisorError(
            f"--link {word}: {accelerator.id} has none that is recorded",
            why="its record states no such rate",
            fix="--link 50GB/s",
        )
    return rate

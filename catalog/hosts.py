"""Hosts: processors and their main memory, in words as tables and people write them."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from pydantic import Field

from advisor.catalog.cpu_names import find_cpu
from advisor.catalog.errors import AdvisorError
from advisor.catalog.files import DATA_DIR, check_record, read_toml
from advisor.catalog.schema.record import Record
from advisor.catalog.units import GIGA, MEGA

Units = Literal["amx", "avx512", "avx2", "sve", "neon"]
_SOCKETS: Final = re.compile(r"^\s*(\d+)\s*[x×]\s*|\b(dual|two|single|one)\b", re.IGNORECASE)
_COUNT_WORDS: Final = {"dual": 2, "two": 2, "single": 1, "one": 1}
_SPEED: Final = re.compile(r"ddr\d[ -]?(\d{4})", re.IGNORECASE)
_MODULES: Final = re.compile(r"(\d+)\s*[x×]\s*(?:\d+\s*GB\s*)?ddr", re.IGNORECASE)
_CHANNELS: Final = re.compile(r"(\d+)[ -]*channels?|(\d+) per socket", re.IGNORECASE)


class Clock(Record):
    """Base clock and vector units of a CPU of the catalog, with which a host multiplies weights."""

    cpu: str
    """Name of the CPU."""
    names: tuple[str, ...] = ()
    """Other names in lower case, as part of what is written."""
    megatransfers_per_s: float | None = Field(default=None, gt=0, le=20_000)
    """Rate of the memory as the maker states it; None if it is that of the CPU's series."""
    base_ghz: float = Field(gt=0, le=10)
    units: Units
    source: str


class SolderedProcessor(Record):
    """Processor that is sold only with its machine: one socket's memory channels and units."""

    names: tuple[str, ...]
    """Names in lower case, as part of what is written."""
    channels: int = Field(ge=1, le=24)
    megatransfers_per_s: float = Field(gt=0, le=20_000)
    bytes_per_transfer: int = Field(default=8, ge=1)
    cores: int = Field(ge=1)
    base_ghz: float = Field(gt=0, le=10)
    units: Units
    source: str


@dataclass(frozen=True, slots=True)
class _Socket:
    """One socket of a host: its memory and its arithmetic."""

    channels: int
    megatransfers_per_s: float | None
    """Usual rate of the memory; None if no record states it."""
    cores: int
    bytes_per_transfer: int = 8
    clock_hz: float = 0.0
    """Base clock; 0 if no record states it."""
    units: Units | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """Main memory and processors of one machine that multiply weights."""

    sockets: int
    bytes_per_s: float
    """Bandwidth of all sockets' memory [bytes/s]."""
    cores: int
    """Cores of all sockets; 0 if the processor is not known."""
    clock_hz: float
    units: Units | None


@lru_cache(maxsize=1)
def all_clocks() -> tuple[Clock, ...]:
    """Return clock and units of CPUs. Source: data/hosts.toml, each with its own source."""
    entries = read_toml(DATA_DIR / "hosts.toml")["clock"]
    return tuple(check_record(Clock, entry, f"hosts.toml: {entry['cpu']}") for entry in entries)


@lru_cache(maxsize=1)
def soldered_processors() -> tuple[SolderedProcessor, ...]:
    """Return the processors that are sold only with their machine. Source: data/hosts.toml."""
    entries = read_toml(DATA_DIR / "hosts.toml")["soldered"]
    return tuple(
        check_record(SolderedProcessor, entry, f"hosts.toml: {entry['names'][0]}") for entry in entries
    )


def _find_socket(text: str) -> _Socket | None:
    """Return the processor that words name: one that is sold with its machine, else a CPU of the catalog."""
    lower = text.lower()
    for one in soldered_processors():
        if any(name in lower for name in one.names):
            return _Socket(
                channels=one.channels,
                megatransfers_per_s=one.megatransfers_per_s,
                cores=one.cores,
                bytes_per_transfer=one.bytes_per_transfer,
                clock_hz=one.base_ghz * GIGA,
                units=one.units,
            )
    other = next((clock.cpu for clock in all_clocks() if any(name in lower for name in clock.names)), text)
    cpu = find_cpu(other, is_labelled=True)
    if cpu is None:
        return None
    clock = next((one for one in all_clocks() if one.cpu == cpu.name), None)
    usual = max(cpu.series.ram_mts.values(), default=None)
    if clock is None:
        return _Socket(cpu.series.channels, usual, cpu.cores)
    rate = clock.megatransfers_per_s or usual
    return _Socket(cpu.series.channels, rate, cpu.cores, clock_hz=clock.base_ghz * GIGA, units=clock.units)


def parse_host(processor: str, memory: str = "", sockets: int | None = None) -> Host:
    """Return a host from words: `2x Xeon Gold 6454S`, with `16x DDR5-4800` where the memory is not the usual.

    Modules are spread over all channels; more modules than channels add nothing.

    Raises: AdvisorError: neither the processor nor its memory is known.
    """
    known = _find_socket(processor)
    written = _SOCKETS.search(processor)
    stated = 1
    if written is not None:
        stated = int(written[1]) if written[1] else _COUNT_WORDS[written[2].lower()]
    else:
        stated = _sockets_of_memory(memory)
    used = sockets or stated
    rate = _memory_rate(memory, known, used, max(used, stated))
    if rate is None:
        raise AdvisorError(
            f"the memory of host {processor!r} is not known",
            why="neither the processor nor channels and speed of its memory are",
            fix="--host-bandwidth 300GB/s, or a processor such as '2x Xeon Gold 6454S'",
            hint=f"known: {', '.join(clock.cpu for clock in all_clocks())}, and others of the parts' catalog",
        )
    if known is None:
        return Host(used, rate, 0, 0.0, None)
    return Host(used, rate, known.cores * used, known.clock_hz, known.units)


def _sockets_of_memory(memory: str) -> int:
    """Return the sockets that the modules of a memory are spread over: 16x DDR5-4800 (8 per socket) are two."""
    modules = _MODULES.search(memory)
    each = _CHANNELS.search(memory)
    if modules is None or each is None or not each[2]:
        return 1
    return max(1, int(modules[1]) // int(each[2]))


def _memory_rate(memory: str, known: _Socket | None, used: int, installed: int) -> float | None:
    """Return the bandwidth of the sockets in use [bytes/s]; None if it is not known."""
    speed = _SPEED.search(memory)
    modules = _MODULES.search(memory)
    channels = _CHANNELS.search(memory)
    each = None
    if channels is not None:
        each = int(channels[1] or channels[2])
    elif modules is not None:
        each = max(1, int(modules[1]) // installed)
    if known is not None:
        each = min(each or known.channels, known.channels)
    transfers = float(speed[1]) if speed else (known.megatransfers_per_s if known else None)
    if each is None or transfers is None:
        return None
    return used * each * transfers * MEGA * (known.bytes_per_transfer if known else 8)

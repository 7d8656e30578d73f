"""GPUs in the pasted output of `nvidia-smi`, `nvidia-smi -q`, `nvidia-smi -L` and `nvidia-smi nvlink -s`."""

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.launcher_lines import without_prefixes
from advisor.catalog.units import MIB
from advisor.probes.nvml import MEGAHERTZ
from advisor.probes.pci_ids import accelerator_of
from advisor.probes.record import Gpu

_GPU_LINE: Final = re.compile(r"^GPU ([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F])\s*$")
_KEY_LINE: Final = re.compile(r"^(\s*)(\S.*?)\s*:(?:\s+(.*))?$")
_HEADING: Final = re.compile(r"^(\s*)(\S.*?)\s*$")
_LISTED: Final = re.compile(r"^\s*GPU (\d+): (.+?) \(UUID: ([^)]+)\)", re.MULTILINE)
_LINK: Final = re.compile(r"^\s*Link \d+: [\d.]+ GB/s", re.MULTILINE)
_TABLE_GPU: Final = re.compile(
    r"^\|\s+(\d+)\s+(\S.*?)\s+(?:On|Off|N/A)\s*\|\s*[0-9a-fA-F]{4,8}:[0-9a-fA-F:.]+\s+\S+\s*\|\s*(\S+)\s*\|\s*$"
)
_TABLE_STATE: Final = re.compile(
    r"^\|.*?\s(\d+)C\s.*?\d+W\s*/\s*(\d+)W\s*\|\s*(\d+)MiB\s*/\s*(\d+)MiB\s*\|\s*(?:(\d+)%|N/A)"
)
_TABLE_MIG: Final = re.compile(r"^\|\s*\|\s*\|\s*(Enabled|Disabled)")
_TABLE_DRIVER: Final = re.compile(r"Driver Version: (\S+)")
_UNKNOWN: Final = ("n/a", "unknown error", "not found", "[n/a]", "insufficient permissions", "")
_REASONS: Final = {
    "sw power cap": "sw_power_cap",
    "hw slowdown": "hw_slowdown",
    "hw thermal slowdown": "hw_thermal",
    "hw power brake slowdown": "hw_power_brake",
    "sw thermal slowdown": "sw_thermal",
}
_MODES: Final = {"none": "none", "pass-through": "passthrough", "vgpu": "vgpu", "host vgpu": "host_vgpu"}
_DATE: Final = "%a %b %d %H:%M:%S %Y"


@dataclass(frozen=True, slots=True)
class SmiReport:
    """Content of one pasted output of nvidia-smi."""

    gpus: tuple[Gpu, ...]
    num_attached: int | None = None
    """Number of GPUs that the head of the report states; None if it has no head."""
    driver: str = ""
    taken_at: datetime.datetime | None = None
    remapped_rows: tuple[int | None, ...] = ()
    is_whole: bool = True
    """Whether the report states the board, which the sections that `nvidia-smi -q -d` chooses do not."""


def is_smi_query(text: str) -> bool:
    """Whether a text is `nvidia-smi -q`."""
    return "NVSMI LOG" in text or any(_GPU_LINE.match(line) for line in without_prefixes(text))


def is_smi_list(text: str) -> bool:
    """Whether a text is `nvidia-smi -L` or `nvidia-smi nvlink -s`."""
    return bool(_LISTED.search(text))


def is_smi_table(text: str) -> bool:
    """Whether a text is the table that `nvidia-smi` prints."""
    return "NVIDIA-SMI" in text and "Driver Version" in text


def read_smi_table(text: str) -> SmiReport:
    """Return the GPUs of the table that `nvidia-smi` prints: names, memory, power limits, uncorrected errors, MIG.

    Raises: InputFileError: the table has no GPU, or ends within the rows of one.
    Source: layout of drivers 510 to 580.
    """
    gpus: list[Gpu] = []
    for line in without_prefixes(text):
        if named := _TABLE_GPU.match(line):
            errors = int(named[3]) if named[3].isdigit() else None
            gpus.append(Gpu(index=int(named[1]), name=named[2], vendor="nvidia", ecc_uncorrected=errors))
        elif gpus and gpus[-1].memory_bytes is None and (state := _TABLE_STATE.match(line)):
            heat_c, limit_w, used, total, load = (float(number or "nan") for number in state.groups())
            found: dict[str, Any] = {"temperature_c": heat_c, "power_limit_w": limit_w}
            found |= {"utilization_fraction": load / 100} if state[5] else {}
            found |= {"memory_used_bytes": used * MIB, "memory_bytes": total * MIB}
            gpus[-1] = gpus[-1].model_copy(update=found)
        elif gpus and gpus[-1].mig_enabled is None and (mig := _TABLE_MIG.match(line)):
            gpus[-1] = gpus[-1].model_copy(update={"mig_enabled": mig[1] == "Enabled"})
    if not gpus or gpus[-1].memory_bytes is None:
        raise InputFileError(
            "the table of nvidia-smi has no whole GPU" if gpus else "the table of nvidia-smi has no GPU",
            why="lines are missing or were wrapped",
            fix="paste all that nvidia-smi -q printed",
        )
    driver = _TABLE_DRIVER.search(text)
    return SmiReport(tuple(gpus), driver=driver[1] if driver else "")


def read_smi_list(text: str) -> SmiReport:
    """Return the GPUs of `nvidia-smi -L`, with the links that are up if the text is `nvidia-smi nvlink -s`."""
    plain = "\n".join(without_prefixes(text))
    heads = list(_LISTED.finditer(plain))
    ends = [*(head.start() for head in heads[1:]), len(plain)]
    gpus = []
    for head, end in zip(heads, ends, strict=True):
        num_links = len(_LINK.findall(plain, head.end(), end)) if "Link " in plain else None
        index = int(head[1])
        gpus.append(Gpu(index=index, name=head[2], vendor="nvidia", uuid=head[3], num_nvlinks=num_links))
    return SmiReport(tuple(gpus))


def read_smi_query(text: str) -> SmiReport:
    """Return the GPUs of `nvidia-smi -q`, or what its chosen sections (`-d POWER`) say about them.

    Raises: InputFileError: no GPU, or a GPU with a product but without PCI device id, so that the text was cut.
    Source: NVIDIA nvidia-smi documentation, section "GPU Attributes".
    """
    head, blocks = _blocks(text)
    gpus = []
    for index, (bus_id, values) in enumerate(blocks):
        if "product name" in values and "pci/device id" not in values:
            raise InputFileError(
                f"GPU {bus_id} has no PCI device id",
                why="the text was cut or lost its indentation",
                fix="paste all that nvidia-smi -q printed",
            )
        gpus.append(_gpu(index, values))
    if not gpus:
        raise InputFileError("no GPU in the report", fix="paste all that nvidia-smi -q printed")
    taken_at = None
    with suppress(ValueError):
        taken_at = datetime.datetime.strptime(" ".join(head.get("timestamp", "").split()), _DATE)
    return SmiReport(
        gpus=tuple(gpus),
        num_attached=_whole(head, "attached gpus"),
        driver=head.get("driver version", ""),
        taken_at=taken_at,
        remapped_rows=tuple(_num_remapped(values) for _, values in blocks),
        is_whole=all("pci/device id" in values for _, values in blocks),
    )


def _blocks(text: str) -> tuple[dict[str, str], list[tuple[str, dict[str, str]]]]:
    """Return the lines of the head and those of each GPU, by the headings above them: `pci/device id`."""
    head: dict[str, str] = {}
    blocks: list[tuple[str, dict[str, str]]] = []
    above: list[tuple[int, str]] = []
    for line in without_prefixes(text):
        if started := _GPU_LINE.match(line.strip()):
            blocks.append((started[1], {}))
            above = []
            continue
        found = _KEY_LINE.match(line) or _HEADING.match(line)
        if found is None:
            continue
        indent = len(found[1])
        above = [(place, name) for place, name in above if place < indent]
        name = found[2].lower()
        value = found[3] if found.re is _KEY_LINE else None
        if value is not None:
            values = blocks[-1][1] if blocks else head
            values.setdefault("/".join([*(heading for _, heading in above), name]), value.strip())
        above.append((indent, name))
    return head, blocks


def _gpu(index: int, values: Mapping[str, str]) -> Gpu:
    # Only a section of this name within the GPU's own lines counts: MIG devices have sections of their own.
    pci_id = _pci_id(values.get("pci/device id", ""))
    mode = values.get("gpu virtualization mode/virtualization mode", "").lower()
    used = _number(values, "fb memory usage/used", MIB)
    load = _number(values, "utilization/gpu", 0.01)
    power = next((part for part in ("gpu power readings", "power readings") if _has(values, part)), "")
    current = "current power limit" if f"{power}/current power limit" in values else "enforced power limit"
    return Gpu(
        index=index,
        name=values.get("product name", ""),
        vendor="nvidia",
        accelerator=accelerator_of(pci_id),
        pci_device_id=pci_id,
        pci_subsystem_id=_pci_id(values.get("pci/sub system id", "")),
        uuid=_text_of(values.get("gpu uuid", "")),
        serial=_text_of(values.get("serial number", "")),
        vbios=_text_of(values.get("vbios version", "")),
        memory_bytes=_number(values, "fb memory usage/total", MIB),
        memory_used_bytes=used,
        max_sm_clock_hz=_number(values, "max clocks/sm", MEGAHERTZ),
        max_memory_clock_hz=_number(values, "max clocks/memory", MEGAHERTZ),
        power_limit_w=_number(values, f"{power}/{current}") or _number(values, f"{power}/power limit"),
        power_default_w=_number(values, f"{power}/default power limit"),
        power_min_w=_number(values, f"{power}/min power limit"),
        power_max_w=_number(values, f"{power}/max power limit"),
        ecc_enabled=_switch(values, "ecc mode/current"),
        ecc_uncorrected=_num_uncorrected(values, "volatile"),
        ecc_uncorrected_lifetime=_num_uncorrected(values, "aggregate"),
        rows_remap_pending=_switch(values, "remapped rows/pending", "retired pages/pending page blacklist"),
        rows_remap_failed=_switch(values, "remapped rows/remapping failure occurred"),
        num_retired_pages=_whole(values, "retired pages/double bit ecc"),
        mig_enabled=_switch(values, "mig mode/current"),
        virtualization=_MODES.get(mode, ""),
        pcie_max_generation=_whole(values, "pci/gpu link info/pcie generation/max"),
        pcie_max_width=_whole(values, "pci/gpu link info/link width/max"),
        pcie_width=_whole(values, "pci/gpu link info/link width/current"),
        num_pcie_replays=_whole(values, "pci/replays since reset"),
        utilization_fraction=load,
        num_other_processes=_num_processes(values),
        temperature_c=_number(values, "temperature/gpu current temp"),
        throttle_reasons=tuple(_reasons(values)),
    )


def _has(values: Mapping[str, str], section: str) -> bool:
    return any(key.startswith(f"{section}/") for key in values)


def _text_of(text: str) -> str:
    return "" if text.lower() in _UNKNOWN else text


def _pci_id(text: str) -> str:
    """Return vendor and device, e.g. 10de:2330, from 0x233010DE; empty for another text."""
    found = re.fullmatch(r"0x([0-9a-fA-F]{4})([0-9a-fA-F]{4})", text.strip())
    return f"{found[2]}:{found[1]}".lower() if found else ""


def _number(values: Mapping[str, str], key: str, unit: float = 1.0) -> float | None:
    found = re.match(r"-?\d+(?:\.\d+)?", values.get(key, ""))
    return float(found[0]) * unit if found else None


def _whole(values: Mapping[str, str], key: str) -> int | None:
    found = _number(values, key)
    return None if found is None else int(found)


def _switch(values: Mapping[str, str], *keys: str) -> bool | None:
    """Return the first of the keys' values that is a yes or a no."""
    words = {"enabled": True, "disabled": False, "yes": True, "no": False}
    return next((words[text] for key in keys if (text := values.get(key, "").lower()) in words), None)


def _num_uncorrected(values: Mapping[str, str], period: str) -> int | None:
    """Number of uncorrectable errors of a period (volatile: since the driver was loaded; aggregate: of the board's
    life), by whichever names the driver's version has."""
    counts = [
        _whole(values, key)
        for key in values
        if key.startswith(f"ecc errors/{period}/")
        and ("uncorrectable" in key or key.endswith("double bit/total"))
    ]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _num_remapped(values: Mapping[str, str]) -> int | None:
    counts = [_whole(values, f"remapped rows/{kind} error") for kind in ("correctable", "uncorrectable")]
    return None if None in counts else sum(count or 0 for count in counts)


def _num_processes(values: Mapping[str, str]) -> int | None:
    if values.get("processes", "").lower() == "none":
        return 0
    return sum(key.rpartition("/")[2] == "process id" for key in values) or None


def _reasons(values: Mapping[str, str]) -> Iterator[str]:
    for key, value in values.items():
        section, _, name = key.rpartition("/")
        is_reason = section.startswith(("clocks event reasons", "clocks throttle reasons"))
        if is_reason and "counters" not in section and value.lower() == "active" and name in _REASONS:
            yield _REASONS[name]


def with_changes(reports: Sequence[SmiReport]) -> SmiReport:
    """Return the last of several whole reports of one machine, with what its counters did since the first.

    The reports are ordered by their timestamps; GPUs are matched by UUID.
    """
    ordered = sorted(reports, key=lambda report: report.taken_at or datetime.datetime.min)
    first = ordered[0]
    last = ordered[-1]
    before = {gpu.uuid: place for place, gpu in enumerate(first.gpus) if gpu.uuid}
    gpus = []
    for place, gpu in enumerate(last.gpus):
        start = before.get(gpu.uuid)
        changes: dict[str, Any] = {}
        if start is not None and last is not first:
            changes["pcie_replays"] = _pair(first.gpus[start].num_pcie_replays, gpu.num_pcie_replays)
            changes["remapped_rows"] = _pair(first.remapped_rows[start], last.remapped_rows[place])
        gpus.append(gpu.model_copy(update=changes))
    return replace(last, gpus=tuple(gpus))


def _pair(before: int | None, after: int | None) -> tuple[int, int] | None:
    return None if before is None or after is None else (before, after)

"""Rules of identity: whether this is the machine that was sold, from driver reports before and
after the measurements.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any, Final, Literal

from advisor.catalog import accelerators
from advisor.catalog.errors import UnknownNameError
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import GIB
from advisor.probes.expectations import find_expectation
from advisor.probes.fabric import fabric_of, num_links
from advisor.probes.record import Gpu, LinkTopology, Measurement, ProbedMachine, Status
from advisor.probes.verdict import with_text

MIN_MEMORY_FRACTION: Final = 0.98
MIN_VISIBLE_FRACTION: Final = 0.95
"""Minimum fraction of the memory that programs must see: firmware keeps up to 2.5 % of a small board's memory from
programs (L4, T4)."""
ECC_SHARE_OF_GDDR: Final = 15 / 16
"""Fraction of GDDR6 left with error correction, which takes a sixteenth: an RTX A6000 shows 45 or 48 GiB, an L4 22.5 or
24."""
MIN_NOMINAL_FRACTION: Final = 0.92
"""Minimum fraction of a nominal capacity that the driver shows: firmware takes up to 8 %."""
MAX_MEMORY_FRACTION: Final = 1.10
"""Memory over the nominal capacity above which the board counts as modified."""
BANDWIDTH_TOLERANCE: Final = 0.03
MIN_POWER_FRACTION: Final = 0.97
MAX_FOREIGN_BYTES: Final = 2 * GIB
MAX_FOREIGN_UTILIZATION: Final = 0.10
MAX_RETIRED_PAGES: Final = 60
"""Number of retired pages from which on NVIDIA takes a board back (dynamic page retirement guide)."""
CLOCK_WARN: Final = 0.90
CLOCK_FAIL: Final = 0.80
"""Fraction of the highest clock below which a board warns (0.90) or fails (0.80): consumer boards compute at 97 % of
their memory clock, and boards at their power limit still peak."""
WARM_C: Final = 85.0
HOT_C: Final = 95.0
DATA_RATE: Final = 2
"""Transfers per clock as NVML counts memory clocks."""
USUAL_COUNTS: Final = (1, 2, 4, 8, 16)
_SLICE_NAMES: Final = re.compile(r"\bMIG\b|^GRID |-\d+[ABCQ]$")
"""Names that drivers give to slices: MIG 3g.40gb, GRID V100-8C, NVIDIA A40-16Q."""
_MEMORY_OF_ID: Final = re.compile(r"-\d+gb$")
_STATED_MEMORY: Final = re.compile(r"\b(\d+)\s?GB\b", re.IGNORECASE)
_PROVE_BOARD: Final = "Ask for the board's PCI id: `nvidia-smi -q`, `lspci -nn`."
_SLOWDOWNS: Final = ("hw_slowdown", "hw_thermal", "hw_power_brake", "sw_thermal")
Rule = Callable[[Gpu, Accelerator], Measurement | None]


def check_machine(
    machine: ProbedMachine,
    accelerator: Accelerator | None,
    num_expected: int | None = None,
    *,
    is_ordered: bool = True,
) -> list[Measurement]:
    """Return all identity checks of the machine against the accelerator that was sold or, unless it `is_ordered`, that
    it claims to be."""
    checks = [check_count(machine, num_expected)] if machine.gpus or num_expected else []
    for gpu in machine.gpus:
        if accelerator is not None:
            source = "order" if is_ordered else "its own claim"
            checks.append(check_sku(gpu, accelerator, source, by_name=machine.runtime == "pasted"))
            checks += [found for rule in RULES if (found := rule(gpu, accelerator)) is not None]
        checks += [found for rule in PLAIN_RULES if (found := rule(gpu)) is not None]
    if accelerator is not None:
        checks += check_nvlink(machine, accelerator)
    return [with_text(check) for check in checks]


def _compare(
    name: str,
    gpu: Gpu | None,
    actual: float | str | None,
    wanted: float | str | None,
    status: Status | bool,
    *,
    unit: str = "",
    source: str = "catalog",
    note: str = "",
    required: float | str | None = None,
    operator: Literal["", ">=", "<="] = "",
    is_health: bool = False,
) -> Measurement:
    return Measurement(
        id=f"{'health' if is_health else 'identity'}.{name}",
        gpu=None if gpu is None else gpu.index,
        instrument="nvml" if is_health else "driver",
        value=actual,
        unit=unit,
        expected=wanted,
        required=wanted if required is None else required,
        operator="==" if isinstance(wanted, str) else operator or ">=",
        source=source,
        status=("pass" if status else "fail") if isinstance(status, bool) else status,
        note=note,
    )


def check_count(machine: ProbedMachine, num_expected: int | None) -> Measurement:
    """Check that the machine has the ordered number of GPUs or, without an order, a number in which
    machines are sold.
    """
    number = len(machine.gpus)
    if num_expected is not None:
        fits = number == num_expected
        return _compare("count", None, float(number), float(num_expected), fits, source="order")
    usual = number in USUAL_COUNTS
    sold = f"machines are sold with {', '.join(map(str, USUAL_COUNTS))} GPUs: one may be missing"
    note = "" if usual else sold
    larger = float(min((n for n in USUAL_COUNTS if n >= number), default=number))
    return _compare(
        "count", None, float(number), larger, "pass" if usual else "warn", source="usual", note=note
    )


def check_sku(gpu: Gpu, accelerator: Accelerator, source: str, *, by_name: bool = False) -> Measurement:
    """Check the board by its PCI id, and its name against it.

    A name can be changed: without a PCI id that is listed, the name of another board fails, any other warns. The name
    of this board passes `by_name`, where another check asks for the id that was not shown.
    """
    is_other = _is_other_board(gpu, accelerator)
    if not gpu.accelerator:
        pci_id = gpu.pci_device_id
        is_named = by_name and not pci_id and _named_board(gpu) == accelerator.id
        note = f"PCI id {pci_id} is not in the list" if pci_id else "judged by its name, which can be changed"
        if not pci_id and not gpu.name:
            note = "neither its PCI id nor its name was shown"
        elif sibling := _sibling_of_memory(gpu, accelerator):
            is_other = True
            note = f"its memory is that of {sibling}"
        verdict: Status = "fail" if is_other else "pass" if is_named else "warn"
        remediation = _PROVE_BOARD if verdict == "warn" else ""
        found = _compare("sku", gpu, gpu.name or "unknown", accelerator.id, verdict, source=source, note=note)
        return found.model_copy(update={"remediation": remediation})
    status: Status = "pass" if gpu.accelerator == accelerator.id else "fail"
    note = gpu.name
    if status == "pass" and is_other:
        status = "warn"
        note = f"calls itself {gpu.name}"
    return _compare("sku", gpu, gpu.accelerator, accelerator.id, status, source=source, note=note)


def _sibling_of_memory(gpu: Gpu, accelerator: Accelerator) -> str:
    """Return the id of the board of the same kind that has the GPU's memory, where no size in its name contradicts
    that; empty if the memory is that of the ordered board, or of none."""
    if gpu.memory_bytes is None or _STATED_MEMORY.search(gpu.name):
        return ""
    kind = _MEMORY_OF_ID.sub("", accelerator.id)
    siblings = [one for one in accelerators.all_ids() if _MEMORY_OF_ID.sub("", one) == kind]
    fitting = [one for one in siblings if _has_memory_of(gpu.memory_bytes, accelerators.by_id(one))]
    return fitting[0] if fitting and accelerator.id not in fitting else ""


def _has_memory_of(memory_bytes: float, accelerator: Accelerator) -> bool:
    nominal = accelerator.memory_bytes
    return (
        nominal is not None
        and MIN_NOMINAL_FRACTION * nominal <= memory_bytes <= MAX_MEMORY_FRACTION * nominal
    )


def _is_other_board(gpu: Gpu, accelerator: Accelerator) -> bool:
    """Whether the driver's name is that of another board. A size in it counts (A100-SXM4-40GB); boards of several sizes
    that have one name differ by their memory alone, which is not judged here."""
    named = _named_board(gpu)
    if not named:
        model = next((part for part in accelerator.id.split("-") if any(map(str.isdigit, part))), "")
        return gpu.vendor == "nvidia" and bool(gpu.name) and model not in gpu.name.lower()
    if accelerator.id not in accelerators.all_ids():
        return False
    if _STATED_MEMORY.search(gpu.name):
        return named != accelerator.id
    return _MEMORY_OF_ID.sub("", named) != _MEMORY_OF_ID.sub("", accelerator.id)


def _named_board(gpu: Gpu) -> str:
    """Return the id of the board that the driver's name means; empty if it means none."""
    try:
        return accelerators.get(gpu.name).record.id
    except UnknownNameError:
        return ""


def check_sms(gpu: Gpu, accelerator: Accelerator) -> Measurement | None:
    """Check that all multiprocessors of the board are present."""
    if gpu.num_sms is None or accelerator.num_sms is None:
        return None
    fits = gpu.num_sms == accelerator.num_sms
    return _compare("sms", gpu, float(gpu.num_sms), float(accelerator.num_sms), fits)


def check_memory(gpu: Gpu, accelerator: Accelerator) -> Measurement | None:
    """Check that the GPU has the whole memory and no more; a nominal capacity gets 8 % of room for firmware."""
    if gpu.memory_bytes is None or accelerator.memory_bytes is None:
        return None
    fraction = MIN_MEMORY_FRACTION if accelerator.memory_is_measured else MIN_NOMINAL_FRACTION
    if gpu.ecc_enabled and accelerator.memory_type.startswith("GDDR"):
        fraction *= ECC_SHARE_OF_GDDR
    required = fraction * accelerator.memory_bytes
    status: Status = "pass" if gpu.memory_bytes >= required else "fail"
    note = ""
    is_more = gpu.memory_bytes > MAX_MEMORY_FRACTION * accelerator.memory_bytes
    if is_more and not accelerator.unified_memory:
        status = "warn"
        note = "more than the board is sold with: it was modified"
    if status != "pass" and check_sku(gpu, accelerator, "").status == "fail":
        status = "info"
        note = "another board's"
    visible = gpu.visible_memory_bytes
    if visible is not None and visible < MIN_VISIBLE_FRACTION * gpu.memory_bytes:
        status = "fail"
        note = f"programs see only {visible / GIB:.1f} GiB of it"
    wanted = accelerator.memory_bytes
    return _compare(
        "memory", gpu, gpu.memory_bytes, wanted, status, unit="bytes", required=required, note=note
    )


def check_bandwidth_peak(gpu: Gpu, accelerator: Accelerator) -> Measurement | None:
    """Check the peak bandwidth: bus width × memory clock × 2."""
    if not gpu.bus_width_bits or not gpu.max_memory_clock_hz or not accelerator.bandwidth_bytes_per_s:
        return None
    peak = gpu.bus_width_bits / 8 * gpu.max_memory_clock_hz * DATA_RATE
    wanted = accelerator.bandwidth_bytes_per_s
    required = (1 - BANDWIDTH_TOLERANCE) * wanted
    told: dict[str, Any] = {"unit": "bytes/s of the bus", "note": f"{gpu.bus_width_bits} bit"}
    return _compare("bandwidth_peak", gpu, peak, wanted, peak >= required, required=required, **told)


def check_power_limit(gpu: Gpu, accelerator: Accelerator) -> Measurement | None:
    """Check the enforced power limit against the usual limit of the board; a default that a host has lowered is no
    reference. A board that is another than the ordered one has its own default as reference."""
    is_other = _is_other_board(gpu, accelerator) or gpu.accelerator not in ("", accelerator.id)
    known = None if is_other else find_expectation(accelerator, "identity.power_limit")
    sheet = None if is_other else known.value if known else accelerator.tdp_w
    wanted = sheet or gpu.power_default_w
    if gpu.power_limit_w is None or wanted is None:
        return None
    required = MIN_POWER_FRACTION * wanted
    lowered = gpu.power_limit_w < MIN_POWER_FRACTION * (gpu.power_default_w or 0.0)
    status: Status = "fail" if gpu.power_limit_w < required else "warn" if lowered else "pass"
    note = f"this board's own default is {gpu.power_default_w:.0f} W" if lowered else ""
    source = known.source if known else "catalog" if sheet else "the board's default"
    told: dict[str, Any] = {"unit": "W", "source": source, "note": note}
    found = _compare("power_limit", gpu, gpu.power_limit_w, wanted, status, required=required, **told)
    if status == "fail" and gpu.power_max_w is not None and gpu.power_max_w < required:
        most = f"The board itself allows at most {gpu.power_max_w:.0f} W: ask the provider which board it is."
        return found.model_copy(update={"remediation": most})
    return found


def check_pcie(gpu: Gpu, accelerator: Accelerator) -> Measurement | None:
    """Check the PCIe link that the slot and the board allow, and the lanes that it has now.

    The generation of an idle link falls, and its width may (NVIDIA nvidia-smi documentation, "Link Width"): fewer lanes
    than possible fail under load and warn otherwise. A report may state one of both.
    """
    pairs = (
        (gpu.pcie_max_generation, accelerator.pcie_generation),
        (gpu.pcie_max_width, accelerator.pcie_lanes),
    )
    known = [(seen, wanted) if seen and wanted else (None, None) for seen, wanted in pairs]
    generation, width = (seen for seen, _ in known)
    if generation is None and width is None:
        return _check_lanes_now(gpu, accelerator)
    wide = all(seen >= wanted for seen, wanted in known if seen is not None and wanted is not None)
    status: Status = "pass" if wide else "fail"
    wanted = _link_words(*(wanted for _, wanted in known))
    found = _link_words(generation, width)
    lanes = min((number for number in known[1] if number is not None), default=0)
    if gpu.pcie_width and gpu.pcie_width < lanes:
        found += f", now x{gpu.pcie_width}"
        is_busy = (gpu.utilization_fraction or 0.0) > MAX_FOREIGN_UTILIZATION
        status = "fail" if is_busy or not wide else "warn"
    return _compare("pcie", gpu, found, wanted, status)


def _check_lanes_now(gpu: Gpu, accelerator: Accelerator) -> Measurement | None:
    """Check the lanes of this moment where a report states nothing else of the link."""
    wanted = accelerator.pcie_lanes
    if not gpu.pcie_width or not wanted:
        return None
    status: Status = "pass" if gpu.pcie_width >= wanted else "warn"
    return _compare("pcie", gpu, f"now x{gpu.pcie_width}", f"x{wanted}", status)


def _link_words(generation: int | None, width: int | None) -> str:
    """Return a link in words: `gen 5 x16`, or the part that is known."""
    parts = (f"gen {generation}" if generation is not None else "", f"x{width}" if width is not None else "")
    return " ".join(filter(None, parts))


def check_ecc(gpu: Gpu, accelerator: Accelerator) -> Measurement | None:
    """Check that error correction is on; boards with GDDR memory are often sold with it off, for 10
    % more bandwidth.
    """
    if gpu.ecc_enabled is None:
        return None
    is_default_on = accelerator.memory_type.upper().startswith("HBM")
    status: Status = "pass" if gpu.ecc_enabled else "fail" if is_default_on else "info"
    return _compare("ecc", gpu, "on" if gpu.ecc_enabled else "off", "on", status, source="rule")


def check_ecc_errors(gpu: Gpu) -> Measurement | None:
    """Check that no uncorrectable error occurred since the driver was loaded, and that no memory wears out."""
    if gpu.ecc_uncorrected is None and gpu.num_retired_pages is None:
        return None
    pages = gpu.num_retired_pages or 0
    bad = gpu.ecc_uncorrected or pages >= MAX_RETIRED_PAGES
    status: Status = "fail" if bad else "warn" if pages else "pass"
    note = f"{pages} pages are retired" if pages else ""
    number = float(gpu.ecc_uncorrected or 0)
    return _compare("ecc_errors", gpu, number, 0.0, status, note=note, source="rule", operator="<=")


def check_row_repair(gpu: Gpu) -> Measurement | None:
    """Check that no row or page of the memory waits to be replaced, and that no replacement failed."""
    if gpu.rows_remap_pending is None and gpu.rows_remap_failed is None:
        return None
    told = {"failed": gpu.rows_remap_failed, "pending": gpu.rows_remap_pending}
    found = next((word for word, is_true in told.items() if is_true), "none")
    return _compare("row_repair", gpu, found, "none", found == "none", source="rule")


def check_lifetime_errors(gpu: Gpu) -> Measurement | None:
    """Return the uncorrectable errors of the board's life, if there are any, which spare rows may have mended."""
    if not gpu.ecc_uncorrected_lifetime:
        return None
    return _tell("lifetime_errors", gpu, gpu.ecc_uncorrected_lifetime)


def check_replays(gpu: Gpu) -> Measurement | None:
    """Return the packets that the link has repeated since its last reset, if there are any; its age is unknown."""
    if not gpu.num_pcie_replays or gpu.pcie_replays is not None:
        return None
    return _tell("pcie_replays", gpu, gpu.num_pcie_replays)


def _tell(name: str, gpu: Gpu, number: int) -> Measurement:
    """Return a count that is shown and not judged."""
    return Measurement(
        id=f"identity.{name}", gpu=gpu.index, instrument="driver", value=float(number), unit=""
    )


def check_mig(gpu: Gpu) -> Measurement | None:
    """Check that the GPU is not sliced."""
    if gpu.mig_enabled is None:
        return None
    return _compare("mig", gpu, "on" if gpu.mig_enabled else "off", "off", not gpu.mig_enabled, source="rule")


def check_virtualization(gpu: Gpu) -> Measurement | None:
    """Check that the GPU is whole, bare or passed through; slices also show by the name that the driver gives them."""
    is_slice = bool(_SLICE_NAMES.search(gpu.name))
    if not gpu.virtualization and not is_slice:
        return None
    whole = gpu.virtualization in ("", "none", "passthrough") and not is_slice
    found = gpu.name if is_slice else gpu.virtualization
    return _compare("virtualization", gpu, found, "none or passthrough", whole, source="rule")


def check_shared(gpu: Gpu) -> Measurement | None:
    """Check, before any work ran here, that no other process computes on the GPU or holds its memory."""
    used = gpu.memory_used_bytes
    number = gpu.num_other_processes
    if used is None and number is None:
        return None
    busy = (gpu.utilization_fraction or 0.0) > MAX_FOREIGN_UTILIZATION
    held = used is not None and used > MAX_FOREIGN_BYTES
    told = {
        "1 process" if number == 1 else f"{number} processes": bool(number),
        f"{gpu.utilization_fraction or 0.0:.0%} busy": busy,
    }
    note = ", ".join(text for text, is_true in told.items() if is_true)
    status: Status = "warn" if busy or held or number else "pass"
    how: dict[str, Any] = {"note": note, "source": "rule", "operator": "<="}
    if used is None:
        return _compare("shared", gpu, float(number or 0), 0.0, status, unit="processes", **how)
    return _compare("shared", gpu, used, MAX_FOREIGN_BYTES, status, unit="bytes in use", **how)


def check_nvlink(machine: ProbedMachine, accelerator: Accelerator) -> list[Measurement]:
    """Check that all of the board's NVLinks are up; bridges are sold separately, but half a bridge is a defect."""
    wanted = num_links(accelerator)
    fabric = fabric_of(accelerator)
    if wanted is None or fabric is None or len(machine.gpus) < 2:
        return []
    found = []
    for gpu in machine.gpus:
        number = gpu.num_nvlinks
        if number is None and machine.topology is not None:
            # The cube of a mesh joins a GPU to several others by a part of its links each.
            links = machine.topology.links_of(gpu.index)
            number = sum(links) if fabric.topology == "mesh" else max(links, default=None)
        if number is None:
            note = "the driver does not say: the copies between GPUs show it"
            found.append(_compare("nvlink", gpu, None, None, "not_measured", note=note))
            continue
        status: Status = "pass" if number >= wanted else "fail"
        note = ""
        if not number and fabric.topology == "bridge":
            status = "warn" if "NVL" in accelerator.name else "info"
            note = "no bridge: copies go over PCIe"
        found.append(
            _compare("nvlink", gpu, float(number), float(wanted), status, unit="links up", note=note)
        )
    if machine.topology is not None and fabric.topology == "switch":
        found += _check_pairs(machine.topology)
    return found


def _check_pairs(topology: LinkTopology) -> list[Measurement]:
    """Return a finding where pairs have fewer NVLinks than both their GPUs have to others: switches join all alike.

    A GPU that has fewer links to all others is a finding about that GPU.
    """
    gpus = range(topology.num_gpus)
    most = [max(topology.links_of(gpu), default=0) for gpu in gpus]
    fewer = [
        f"{i}-{j} {topology.links[i][j]}"
        for i, j in combinations(gpus, 2)
        if min(topology.links_between(i, j), topology.links_between(j, i)) < min(most[i], most[j])
    ]
    if not fewer:
        return []
    number = len(most) * (len(most) - 1) // 2
    words = f"{number - len(fewer)} of {number} pairs"
    note = f"fewer links: {', '.join(fewer)}"
    return [_compare("nvlink_pairs", None, words, f"{number} of {number} pairs", "fail", note=note)]


def check_conditions(measurements: Iterable[Measurement], gpus: Sequence[Gpu]) -> list[Measurement]:
    """Check heat, throttling and the PCIe link under load, from the samples of all measurements."""
    checks = []
    for gpu in gpus:
        seen = [m.conditions for m in measurements if m.gpu == gpu.index and m.conditions is not None]
        temperatures = [c.temperature_c[1] for c in seen if c.temperature_c]
        temperatures += [c.memory_temperature_c[1] for c in seen if c.memory_temperature_c]
        if temperatures:
            checks.append(_heat(gpu, max(temperatures)))
        if any(c.num_samples for c in seen):
            reasons = sorted({reason for c in seen for reason in c.throttle_reasons})
            checks.append(_throttle(gpu, reasons))
        sm = [c.sm_clock_hz[1] for c in seen if c.sm_clock_hz]
        memory = [c.memory_clock_hz[1] for c in seen if c.memory_clock_hz]
        for name, clocks, highest in (
            ("sm_clock", sm, gpu.max_sm_clock_hz),
            ("memory_clock", memory, gpu.max_memory_clock_hz),
        ):
            if clocks and highest:
                checks.append(_clock(name, gpu, max(clocks), highest))
        widths = [c.pcie_width for c in seen if c.pcie_width]
        generations = [c.pcie_generation for c in seen if c.pcie_generation]
        if widths and generations:
            checks.append(_link_under_load(gpu, max(generations), max(widths)))
    return [with_text(check) for check in checks]


def _heat(gpu: Gpu, hottest_c: float) -> Measurement:
    status: Status = "fail" if hottest_c >= HOT_C else "warn" if hottest_c >= WARM_C else "pass"
    source = "rule: 85 °C warns, 95 °C fails"
    return _compare(
        "temperature", gpu, hottest_c, WARM_C, status, unit="°C", source=source, operator="<=", is_health=True
    )


def _clock(name: str, gpu: Gpu, seen_hz: float, highest_hz: float) -> Measurement:
    """Check the best clock seen under load: a clock locked low never gets near the board's highest."""
    ratio = seen_hz / highest_hz
    status: Status = "pass" if ratio >= CLOCK_WARN else "warn" if ratio >= CLOCK_FAIL else "fail"
    required = CLOCK_FAIL * highest_hz
    source = "the board's highest clock"
    return _compare(
        name, gpu, seen_hz, highest_hz, status, unit="Hz", source=source, required=required, is_health=True
    )


def _throttle(gpu: Gpu, reasons: Sequence[str]) -> Measurement:
    slowed = [reason for reason in reasons if reason in _SLOWDOWNS]
    note = "" if slowed or not reasons else f"{', '.join(reasons)}: normal at full load"
    told = ", ".join(slowed) or "none"
    return _compare("throttle", gpu, told, "none", not slowed, source="rule", note=note, is_health=True)


def _link_under_load(gpu: Gpu, generation: int, width: int) -> Measurement:
    wanted_generation = gpu.pcie_max_generation or generation
    wanted_width = gpu.pcie_max_width or width
    trained = generation >= wanted_generation and width >= wanted_width
    found = f"gen {generation} x{width}"
    wanted = f"gen {wanted_generation} x{wanted_width}"
    return _compare("pcie_under_load", gpu, found, wanted, trained, source="the link's own maximum")


RULES: Final[tuple[Rule, ...]] = (
    check_sms,
    check_memory,
    check_bandwidth_peak,
    check_power_limit,
    check_pcie,
    check_ecc,
)
PLAIN_RULES: Final[tuple[Callable[[Gpu], Measurement | None], ...]] = (
    check_ecc_errors,
    check_row_repair,
    check_lifetime_errors,
    check_replays,
    check_mig,
    check_virtualization,
    check_shared,
)

"""Accelerators of the catalog and their aliases."""

import functools
import math
import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, Field, model_validator

from advisor.catalog.described import find_described
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.files import DATA_DIR, check_record, read_toml, stated_aliases, toml_names
from advisor.catalog.resolve import REMEMBERED_NAMES, Chosen, match, unknown
from advisor.catalog.schema import Accelerator, ScaleUp, Source
from advisor.catalog.units import BITS_PER_BYTE, GB, GIB, GIGA, MB, MEGA, MIB, TERA

_FOLDER: Final = DATA_DIR / "accelerators"
_FAMILY: Final = re.compile(r"[a-z]{3,}")
"""Words that may name a family; shorter ones begin ids of many makers."""


@functools.cache
def all_accelerators() -> tuple[Accelerator, ...]:
    """Return every accelerator of the catalog in the order of their files, ranked or not.

    Raises: InputFileError: a bundled file is damaged.
    """
    return tuple(by_id(id_) for id_ in all_ids())


@functools.cache
def all_ids() -> tuple[str, ...]:
    """Return the ids of every accelerator, in the order of their files."""
    return tuple(sorted(toml_names(_FOLDER), key=lambda id_: f"{id_}.toml"))


@functools.cache
def aliases() -> dict[str, str]:
    """Return id by alias. `h100` is the SXM board, `a100` the 80 GB SXM board: the most rented form of each."""
    return stated_aliases(_FOLDER)


@functools.cache
def of_family(name: str) -> tuple[str, ...]:
    """Return the ids of a maker's accelerators, or of those whose ids begin with a word: amd, tpu; none if the name is
    neither."""
    word = name.strip().lower()
    if not _FAMILY.fullmatch(word):
        return ()
    begun = tuple(id_ for id_ in all_ids() if re.match(rf"{word}(?![a-z])", id_))
    return begun or tuple(each.id for each in all_accelerators() if each.vendor == word)


@functools.cache
def by_id(id_: str) -> Accelerator:
    """Return the accelerator with exactly this id, which may end in a smaller memory that is sold: m4-pro-48gb.

    Raises: UnknownNameError: no record has this id; `hint` lists near misses. InputFileError: the file is damaged.
    """
    if id_ not in all_ids():
        if (smaller := _with_memory(id_)) is not None:
            return smaller
        raise unknown(id_, all_ids(), aliases(), "accelerator")
    return read_accelerator(_FOLDER / f"{id_}.toml")


def _with_memory(id_: str) -> Accelerator | None:
    """Return the chip that an id names with one of the smaller memories that it is sold with; None if there is none."""
    chip, _, memory = id_.removesuffix("gb").rpartition("-")
    if chip not in all_ids() or not memory.isdigit():
        return None
    record = by_id(chip)
    if int(memory) not in record.smaller_memories_gib:
        return None
    changes = {"id": id_, "name": f"{record.name} {memory} GB", "memory_bytes": int(memory) * GIB}
    return record.model_copy(update=changes | {"smaller_memories_gib": ()})


def get(name: str, *, any_memory: bool = False) -> Chosen[Accelerator]:
    """Return the accelerator that the user means by `name`, and a note that names the choice, with its memory if others
    are sold under the name; `any_memory`: the name means all of these.

    Raises: UnknownNameError: no record or several records have this name, or it is of a chip that is described only;
        `hint` lists near misses.
    """
    if (found := _accelerator_named(name)) is not None:
        return found if any_memory else _with_memory_said(found, name)
    kind, colon, count = name.partition(":")
    if colon and count.isdigit():
        raise UnknownNameError(
            f"{name} names a number of accelerators",
            why="its number follows from the layout: --tp, --pp, --dp and --replicas, which these do not divide",
            fix=f"--gpu {kind}, with degrees whose product divides {count}",
        )
    if len(parts := name.split(",")) > 1:
        raise UnknownNameError(
            f"{name} names {len(parts)} accelerators",
            why="one is taken here",
            fix=get(parts[0].strip()).record.id,
        )
    if (chip := find_described(name)) is None:
        raise unknown(name, all_ids(), aliases(), "accelerator")
    raise UnknownNameError(
        f"{chip.name} is described, not simulated",
        why=chip.why,
        fix=f"type {chip.nearest}, the nearest that is simulated",
        hint=f"advisor catalog show {chip.id} says what is known",
    )


def find(name: str) -> Accelerator | None:
    """Return the accelerator that a name means; None if no record or several records have it. Names that no accelerator
    has cost little: they are the words of other people's texts."""
    try:
        found = _accelerator_named(name)
    except UnknownNameError:
        return None
    return None if found is None else found.record


@functools.lru_cache(maxsize=REMEMBERED_NAMES)
def _accelerator_named(name: str) -> Chosen[Accelerator] | None:
    """Return what `get` does; None if no record has this name.

    Raises: UnknownNameError: several records have the name, or the one that has it has another memory than it states.
    """
    try:
        same = match(name, all_ids(), {} if name in all_ids() else aliases(), "accelerator")
    except UnknownNameError:
        if (board := _as_in_shops(name)) is None:
            raise
        return board
    return _as_in_shops(name) if same is None else Chosen(by_id(same.id), same.note)


def _with_memory_said(found: Chosen[Accelerator], name: str) -> Chosen[Accelerator]:
    """Return the accelerator of a name with a note on its memory, if the name states none and others are sold."""
    record = found.record
    others = other_memories(record)
    if not others or record.memory_bytes is None or _MEMORY.search(name):
        return found
    taken = found.note or f"accelerator '{name}' is taken"
    ids = ", ".join(others)
    return Chosen(record, f"{taken} with {record.memory_bytes / GIB:.0f} GB of memory; also sold: {ids}")


def other_memories(record: Accelerator) -> tuple[str, ...]:
    """Return the ids of what is sold under the same name with another memory, the smallest first. Boards whose memory
    was changed after sale are not."""
    return tuple(f"{record.id}-{size}gb" for size in record.smaller_memories_gib) or _boards_of(record.id)


@functools.cache
def _boards_of(id_: str) -> tuple[str, ...]:
    """Return the ids that are another one and a memory behind it."""
    named = re.compile(rf"{re.escape(id_)}-(\d+)gb")
    boards = [(int(size[1]), each) for each in all_ids() if (size := named.fullmatch(each))]
    return tuple(each for _, each in sorted(boards) if not by_id(each).modified)


_BESIDE_THE_NAME: Final = re.compile(
    r"\b(?:nvidia|geforce|amd|radeon|instinct|intel|apple|tesla|graphics|generation|blackwell|edition|imac|with"
    r"|mac ?(?:studio|mini|book ?(?:pro|air))|hbm\d?e?|gddr\d\w?|oam|hgx)\b|\((?:r|tm)\)",
    re.IGNORECASE,
)
"""Words that drivers and shops write around the name of a board or chip."""
_MEMORY: Final = re.compile(r"[\s,-]*\b(\d+) ?gi?b?\b(?: (?:memory|ram|unified memory))?", re.IGNORECASE)
_HBM: Final = re.compile(r"\bhbm(\d)", re.IGNORECASE)
_MEMORY_TOLERANCE: Final = 0.05


def _as_in_shops(name: str) -> Chosen[Accelerator] | None:
    """Return the accelerator of a name as drivers and shops write it, `NVIDIA GeForce RTX 3090 24GB`; None if unknown.

    Raises: UnknownNameError: the record has another memory than the name states.
    """
    bare = " ".join(_BESIDE_THE_NAME.sub(" ", name).split()).strip(" -,")
    stated = _MEMORY.search(bare)
    unnumbered = re.sub(r"(?<=sxm)\d", "", bare, flags=re.IGNORECASE)
    without_memory = " ".join(_MEMORY.sub(" ", unnumbered).split())
    named = (bare, unnumbered, f"{without_memory} {stated[1]}gb") if stated else (bare, unnumbered)
    for plain in (*named, without_memory):
        try:
            same = match(plain, all_ids(), aliases(), "accelerator")
        except UnknownNameError:
            continue
        if same is None:
            continue
        record = by_id(same.id)
        kinds = {found[1] for text in (name, record.memory_type) if (found := _HBM.search(text))}
        if len(kinds) > 1:
            continue
        held = record.memory_bytes
        if stated and (smaller := _with_memory(f"{record.id}-{stated[1]}gb")) is not None:
            return Chosen(
                smaller, f"accelerator '{name}' is taken as {smaller.id}" if name != smaller.id else ""
            )
        if (
            stated
            and held
            and plain not in named
            and abs(int(stated[1]) * GIB / held - 1.0) > _MEMORY_TOLERANCE
        ):
            raise UnknownNameError(
                f"{record.id} has {held / GIB:.0f} GiB in the catalog, not {stated[1]}",
                why="its memory decides what fits and is not changed by a name",
                fix=f"--gpu {record.id} --gpu-memory-utilization {int(stated[1]) * GIB / held * 0.9:.2f}"
                if record.unified_memory and int(stated[1]) * GIB < held
                else "type the id of the board with this memory; advisor catalog gpus lists them",
            )
        return Chosen(record, f"accelerator '{name}' is taken as {record.id}")
    return None


NEAR_FACTOR: Final = 8.0
"""Largest product of the ratios of memory, bandwidth and rate at which an accelerator is called the nearest. Own
choice: a wafer, or a chip without memory outside it, then has none."""


def nearest_served(accelerator: Accelerator) -> Accelerator | None:
    """Return the accelerator nearest in memory, bandwidth and 16-bit rate on which an engine of the catalog runs.

    None if the record lacks memory or bandwidth, or if no accelerator is near.
    """
    own = _figures(accelerator)
    if own[0] is None or own[1] is None:
        return None

    def distance(other: Accelerator) -> float:
        return sum(abs(math.log(a / b)) for a, b in zip(own, _figures(other), strict=True) if a and b)

    served = (
        other
        for other in all_accelerators()
        if other.engines
        and None not in _figures(other)
        and other.unified_memory == accelerator.unified_memory
    )
    found = min(served, key=distance, default=None)
    return found if found is not None and distance(found) <= math.log(NEAR_FACTOR) else None


def _figures(accelerator: Accelerator) -> tuple[float | None, float | None, float | None]:
    return (
        accelerator.memory_bytes,
        accelerator.bandwidth_bytes_per_s,
        accelerator.peak_flop_per_s.get("bf16"),
    )


Peak = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp6", "fp4", "int4"]
MAX_BANDWIDTH_MISMATCH: Final = 0.03
_PEAK: Final = "peak_flop_per_s."

GbPerS = Annotated[float, Field(gt=0, lt=1e8), AfterValidator(lambda value: value * GB)]
Gbit = Annotated[float, Field(gt=0, lt=1e5), AfterValidator(lambda value: value * GIGA / BITS_PER_BYTE)]
Mhz = Annotated[float, Field(gt=0, lt=1e4), AfterValidator(lambda value: value * MEGA)]
Megabytes = Annotated[float, Field(gt=0, lt=1e5), AfterValidator(lambda value: value * MB)]
Tflops = Annotated[float, AfterValidator(lambda value: value * TERA)]


class ScaleUpFile(ScaleUp):
    bytes_per_s: GbPerS = Field(validation_alias="gb_per_s_per_direction")


_CODED_DATA_FRACTION: Final = 15.0 / 16.0
"""Fraction of GDDR memory that holds data if error correction is on."""


class AcceleratorFile(Accelerator):
    """Keys of data/accelerators/<id>.toml: figures in the field's customary units, other fields as in the record."""

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    released: str = Field(default="", pattern=r"^(\d{4}(-\d{2}){0,2})?$")
    memory_gib: float | None = Field(default=None, gt=0, lt=1e5)
    """Nominal capacity [GiB]: a 'GB' on the box of a GPU is 2**30 bytes, because DRAM is made in powers of two."""
    memory_gb: float | None = Field(default=None, gt=0, lt=1e5)
    """Nominal capacity [GB] if the vendor counts in 10**9 bytes, or on-chip SRAM."""
    usable_memory_mib: float | None = Field(default=None, gt=0, lt=1e8)
    """Memory that the driver reports, e.g. nvidia-smi [MiB]."""
    memory_bus_bits: int | None = Field(default=None, gt=0)
    memory_gbit_per_s_per_pin: float | None = Field(default=None, gt=0, lt=100)
    bandwidth_bytes_per_s: GbPerS | None = Field(default=None, validation_alias="bandwidth_gb_per_s")
    clock_hz: Mhz | None = Field(default=None, validation_alias="clock_mhz")
    """Clock at which the peaks are stated, if it is below the largest boost clock [MHz in the file]."""
    l2_bytes: Megabytes | None = Field(default=None, validation_alias="l2_mb")
    pcie_generation: int | None = Field(default=None, ge=1, le=7)
    pcie_lanes: int | None = Field(default=None, ge=1, le=16)
    scale_out_bytes_per_s: Gbit | None = Field(default=None, validation_alias="scale_out_gbit_per_s")
    assumed_network_bytes_per_s: Gbit | None = Field(
        default=None, validation_alias="assumed_network_gbit_per_s"
    )
    peak_flop_per_s: dict[Peak, Tflops] = Field(  # type: ignore[assignment]
        default_factory=dict, validation_alias="peak_dense_tflops"
    )
    scale_up: ScaleUpFile | None = None
    sources: tuple[Source, ...] = Field(min_length=1, validation_alias="source")
    field_sources: dict[str, Source] = Field(default_factory=dict, validation_alias="field_source")

    @model_validator(mode="after")
    def _is_consistent(self) -> "AcceleratorFile":
        if self.memory_gib is not None and self.memory_gb is not None:
            raise ValueError("memory_gib and memory_gb are the same thing in two units: give one")
        if self.memory_bus_bits and self.memory_gbit_per_s_per_pin and self.bandwidth_bytes_per_s:
            from_bus = self.memory_bus_bits * self.memory_gbit_per_s_per_pin / BITS_PER_BYTE
            stated = self.bandwidth_bytes_per_s / GB
            if abs(from_bus / stated - 1) > MAX_BANDWIDTH_MISMATCH:
                raise ValueError(f"bandwidth_gb_per_s {stated:g} is not bus x rate / 8 = {from_bus:.0f}")
        if unknown := [key for key in self.field_sources if key not in _record_fields()]:
            raise ValueError(f"field_source names no field: {', '.join(unknown)}")
        missing = self._missing()
        if missing and not self.unranked_reason:
            raise ValueError(
                f"lacks {', '.join(missing)}: give a sourced value or say why in unranked_reason"
            )
        return self

    def _missing(self) -> list[str]:
        """Return the required fields that are empty; without them the accelerator cannot be ranked."""
        needed = {
            "memory_gib": self.memory_gib or self.memory_gb or self.usable_memory_mib,
            "bandwidth_gb_per_s": self.bandwidth_bytes_per_s,
            "peak_dense_tflops.bf16 or .fp16": self.peak_flop_per_s.keys() & {"bf16", "fp16"},
            "tdp_w": self.tdp_w,
        }
        return [field for field, value in needed.items() if not value]

    def _data_fraction(self) -> float:
        """Return the fraction of memory and of its traffic that holds data.

        Boards with GDDR memory keep error correction, if it is on, in the memory itself: their driver reports 15/16 of
        the capacity. HBM has room of its own for it.

        Source: exafunction.com/blog/ecc-gpu (T4, 15 of 16 GB); NVIDIA/DCGM diag-skus.yaml.in: an L40S reads 700 of 864
        GB/s; IST-DASLab/marlin README: 10 to 15 % of an A10's bandwidth.
        """
        nominal_mib = self.memory_gib and self.memory_gib * GIB / MIB
        if not (self.usable_memory_mib and nominal_mib and self.memory_type.startswith("GDDR")):
            return 1.0
        is_coded = self.usable_memory_mib / nominal_mib < (1.0 + _CODED_DATA_FRACTION) / 2.0
        return _CODED_DATA_FRACTION if is_coded else 1.0

    def to_record(self) -> Accelerator:
        """Return the accelerator as a catalog record."""
        sizes = ((self.usable_memory_mib, MIB), (self.memory_gib, GIB), (self.memory_gb, GB))
        values = {name: getattr(self, name) for name in Accelerator.model_fields}
        values |= {
            "memory_bytes": next((size * unit for size, unit in sizes if size is not None), None),
            "memory_is_measured": self.usable_memory_mib is not None,
            "data_fraction": self._data_fraction(),
            "scale_up": self.scale_up and ScaleUp(**dict(self.scale_up)),
            "field_sources": {_record_fields()[key]: source for key, source in self.field_sources.items()},
        }
        return Accelerator(**values)


@functools.cache
def _record_fields() -> dict[str, str]:
    """Return the record's field by each key of a file that may have a source of its own."""
    found = {
        str(field.validation_alias or name): name for name, field in AcceleratorFile.model_fields.items()
    }
    found |= dict.fromkeys(("memory_gib", "memory_gb", "usable_memory_mib"), "memory_bytes")
    return found | {peak: _PEAK + peak for peak in get_args(Peak)}


def read_accelerator(path: Path) -> Accelerator:
    """Return the accelerator that a TOML file describes, in SI units.

    Raises: InputFileError: the file is not TOML, a field is wrong, or its name is not <id>.toml.
    """
    values: dict[str, Any] = read_toml(path)
    written = check_record(AcceleratorFile, values, str(path))
    if path.stem != written.id:
        raise InputFileError(
            f"{path}: field id: {written.id!r}",
            why="the file name is not the id",
            fix=f"call it {written.id}.toml",
        )
    return written.to_record()

"""The accelerators of the catalog, and what people call them."""

import functools
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

from pydantic import Field, model_validator

from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.files import DATA_DIR, checked, read_toml, stated_aliases
from advisor.catalog.resolve import near_misses, resolve
from advisor.catalog.schema import Accelerator, ScaleUp, Source
from advisor.catalog.schema.accelerator import Status, Vendor
from advisor.catalog.schema.record import Record
from advisor.catalog.units import BITS_PER_BYTE, GB, GIB, GIGA, MB, MEGA, MIB, TERA

_FOLDER: Final = DATA_DIR / "accelerators"


class ChosenAccelerator(NamedTuple):
    """A record, and a sentence for the user where the name typed was not its id."""

    record: Accelerator
    note: str


@functools.cache
def all_accelerators() -> tuple[Accelerator, ...]:
    """Every accelerator of the catalog in the order of their files, ranked or not.

    Raises: InputFileError: a bundled file is damaged.
    """
    return tuple(by_id(id_) for id_ in all_ids())


@functools.cache
def all_ids() -> tuple[str, ...]:
    """Ids of every accelerator, in the order of their files."""
    return tuple(path.stem for path in sorted(_FOLDER.glob("*.toml")))


@functools.cache
def aliases() -> dict[str, str]:
    """Id by alias. `h100` is the SXM board, `a100` the 80 GB SXM board: the most rented form of each."""
    return stated_aliases(_FOLDER)


@functools.cache
def by_id(id_: str) -> Accelerator:
    """The accelerator with exactly this id.

    Raises: UnknownNameError: there is none; `hint` lists near misses. InputFileError: its file is damaged.
    """
    if id_ not in all_ids():
        near = ", ".join(near_misses(id_, all_ids(), aliases()))
        raise UnknownNameError(
            f"unknown accelerator id '{id_}'",
            why="the catalog has no record with this id",
            fix="type an id that the catalog lists",
            hint=f"did you mean: {near}" if near else "",
        )
    return read_accelerator(_FOLDER / f"{id_}.toml")


def get(name: str) -> ChosenAccelerator:
    """The accelerator that a person means by `name`, and a note that says which was chosen.

    Raises: UnknownNameError: nothing, or more than one thing, is called so; `hint` lists near misses.
    """
    found = resolve(name, all_ids(), {} if name in all_ids() else aliases(), "accelerator")
    return ChosenAccelerator(by_id(found.id), found.note)


Peak = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp6", "fp4", "int4"]
PEAKS: Final[tuple[str, ...]] = get_args(Peak)
MAX_BANDWIDTH_MISMATCH: Final = 0.03
_SAME_FIELDS: Final = (
    "id", "name", "vendor", "aliases", "architecture", "compute_capability", "form_factor", "released",
    "status", "engines", "memory_type", "num_sms", "tdp_w", "pcie_generation", "pcie_lanes",
    "pcie_peer_to_peer", "unified_memory", "msrp_usd", "unranked_reason", "notes",
)  # fmt: skip
_RECORD_FIELD: Final = {
    "memory_gib": "memory_bytes",
    "memory_gb": "memory_bytes",
    "usable_memory_mib": "memory_bytes",
    "bandwidth_gb_per_s": "bandwidth_bytes_per_s",
    "clock_mhz": "clock_hz",
    "l2_mb": "l2_bytes",
    "scale_out_gbit_per_s": "scale_out_bytes_per_s",
}


class ScaleUpFile(Record):
    kind: str
    gb_per_s_per_direction: float = Field(gt=0, lt=1e5)
    max_domain: int = Field(ge=1, le=65536)


class AcceleratorFile(Record):
    """Keys of data/accelerators/<id>.toml; field meanings as in `schema.Accelerator`."""

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    name: str
    vendor: Vendor
    aliases: tuple[str, ...] = ()
    architecture: str
    compute_capability: str = ""
    form_factor: str = ""
    released: str = Field(default="", pattern=r"^(\d{4}(-\d{2}){0,2})?$")
    status: Status = "released"
    engines: tuple[str, ...] = ()
    memory_gib: float | None = Field(default=None, gt=0, lt=1e5)
    """Nominal capacity: a 'GB' on the box of a GPU is 2**30 bytes, as DRAM is made in powers of two."""
    memory_gb: float | None = Field(default=None, gt=0, lt=1e5)
    """Nominal capacity where the vendor counts in 10**9 bytes, or on-chip SRAM."""
    usable_memory_mib: float | None = Field(default=None, gt=0, lt=1e8)
    """As the driver reports it (nvidia-smi and its like)."""
    memory_type: str = ""
    memory_bus_bits: int | None = Field(default=None, gt=0)
    memory_gbit_per_s_per_pin: float | None = Field(default=None, gt=0, lt=100)
    bandwidth_gb_per_s: float | None = Field(default=None, gt=0, lt=1e8)
    num_sms: int | None = Field(default=None, gt=0)
    clock_mhz: float | None = Field(default=None, gt=0, lt=1e4)
    """The clock at which the peaks are stated, where that is below the largest boost clock."""
    l2_mb: float | None = Field(default=None, gt=0, lt=1e5)
    tdp_w: float | None = Field(default=None, gt=0, lt=1e5)
    pcie_generation: int | None = Field(default=None, ge=3, le=7)
    pcie_lanes: int | None = Field(default=None, ge=1, le=16)
    pcie_peer_to_peer: bool = True
    scale_out_gbit_per_s: float | None = Field(default=None, gt=0)
    unified_memory: bool = False
    msrp_usd: float | None = Field(default=None, gt=0)
    peak_dense_tflops: dict[Peak, float] = Field(default_factory=dict)
    scale_up: ScaleUpFile | None = None
    unranked_reason: str = ""
    notes: str = ""
    source: tuple[Source, ...] = Field(min_length=1)
    field_source: dict[str, Source] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_consistent(self) -> "AcceleratorFile":
        if self.memory_gib is not None and self.memory_gb is not None:
            raise ValueError("memory_gib and memory_gb are the same thing in two units: give one")
        if self.memory_bus_bits and self.memory_gbit_per_s_per_pin and self.bandwidth_gb_per_s:
            from_bus = self.memory_bus_bits * self.memory_gbit_per_s_per_pin / BITS_PER_BYTE
            if abs(from_bus / self.bandwidth_gb_per_s - 1) > MAX_BANDWIDTH_MISMATCH:
                raise ValueError(
                    f"bandwidth_gb_per_s {self.bandwidth_gb_per_s} is not bus x rate / 8 = {from_bus:.0f}"
                )
        unknown = [
            key for key in self.field_source if key not in type(self).model_fields and key not in PEAKS
        ]
        if unknown:
            raise ValueError(f"field_source names no field: {', '.join(unknown)}")
        missing = self._missing()
        if missing and not self.unranked_reason:
            raise ValueError(
                f"lacks {', '.join(missing)}: give a sourced value or say why in unranked_reason"
            )
        return self

    def _missing(self) -> list[str]:
        """Fields without which it cannot be ranked."""
        needed = {
            "memory_gib": self.memory_gib or self.memory_gb or self.usable_memory_mib,
            "bandwidth_gb_per_s": self.bandwidth_gb_per_s,
            "peak_dense_tflops.bf16 or .fp16": self.peak_dense_tflops.keys() & {"bf16", "fp16"},
            "tdp_w": self.tdp_w,
        }
        return [field for field, value in needed.items() if not value]

    def to_record(self) -> Accelerator:
        """The accelerator in SI units."""
        return Accelerator(
            **{name: getattr(self, name) for name in _SAME_FIELDS},
            memory_bytes=self._memory_bytes(),
            memory_is_measured=self.usable_memory_mib is not None,
            bandwidth_bytes_per_s=_times(self.bandwidth_gb_per_s, GB),
            peak_flop_per_s={dtype: tflops * TERA for dtype, tflops in self.peak_dense_tflops.items()},
            clock_hz=_times(self.clock_mhz, MEGA),
            l2_bytes=_times(self.l2_mb, MB),
            scale_up=self._scale_up(),
            scale_out_bytes_per_s=_times(self.scale_out_gbit_per_s, GIGA / BITS_PER_BYTE),
            sources=self.source,
            field_sources={_record_field(key): source for key, source in self.field_source.items()},
        )

    def _memory_bytes(self) -> float | None:
        if self.usable_memory_mib is not None:
            return self.usable_memory_mib * MIB
        return _times(self.memory_gib, GIB) or _times(self.memory_gb, GB)

    def _scale_up(self) -> ScaleUp | None:
        if self.scale_up is None:
            return None
        return ScaleUp(
            kind=self.scale_up.kind,
            bytes_per_s=self.scale_up.gb_per_s_per_direction * GB,
            max_domain=self.scale_up.max_domain,
        )


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _record_field(key: str) -> str:
    return f"peak_flop_per_s.{key}" if key in PEAKS else _RECORD_FIELD.get(key, key)


def read_accelerator(path: Path) -> Accelerator:
    """The accelerator written in a TOML file, in SI units.

    Raises: InputFileError: it is not TOML, a field is wrong, or the file is not called <id>.toml.
    """
    values: dict[str, Any] = read_toml(path)
    written = checked(AcceleratorFile, values, str(path))
    if path.stem != written.id:
        raise InputFileError(
            f"{path}: field id: {written.id!r}",
            why="the file name is not the id",
            fix=f"call it {written.id}.toml",
        )
    return written.to_record()

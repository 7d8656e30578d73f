"""Fitted efficiencies: look one up by architecture, operator, number format and engine.

One file per operator and architecture, `data/efficiency/<operator>/<architecture>.toml`: a `[source]` table
that all records of the file share, and `[[records]]` with what differs. Only the required
files are parsed. If the requested pair was not measured, the record of the nearest measured relative is returned, and
the result says so.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final, Self

from advisor.catalog.errors import UnknownNameError
from advisor.catalog.files import DATA_DIR, read_toml, toml_names
from advisor.catalog.schema.efficiency import EfficiencyRecord

ANY_ENGINE: Final = "any"
_FOLDER: Final = DATA_DIR / "efficiency"
OTHER_VENDOR_ERROR: Final = 0.3

# Nearest measured relatives, nearest first: the matrix unit's generation decides, then the kind of memory.
_RELATIVES: Final[dict[str, tuple[str, ...]]] = {
    "volta": ("ampere",),
    "kepler": ("maxwell", "pascal", "ampere"),
    "maxwell": ("pascal", "ampere"),
    "pascal": ("ampere", "ada"),
    "turing": ("ampere", "ada"),
    "ampere": ("ada", "hopper"),
    "ampere-geforce": ("ada", "ampere"),
    "ada": ("blackwell-geforce", "ampere"),
    "hopper": ("blackwell", "ampere"),
    "blackwell": ("blackwell-ultra", "hopper"),
    "blackwell-ultra": ("blackwell", "hopper"),
    "blackwell-geforce": ("ada", "blackwell"),
    "rubin": ("blackwell-ultra", "blackwell"),
    "cdna": ("cdna3", "hopper", "ampere"),
    "cdna4": ("blackwell", "hopper"),
    "cdna5": ("cdna4", "blackwell"),
    "gaudi": ("hopper", "ampere"),
    "tpu": ("hopper", "ampere"),
    "trainium": ("hopper", "ampere"),
    "inferentia": ("ampere",),
    "gcn": ("rdna3.5", "rdna4", "ada"),
    "rdna": ("rdna3.5", "rdna4", "ada", "blackwell-geforce"),
    "apple": ("apple-m3", "apple-m2", "apple-m1", "ada", "ampere"),
    "xe": ("xe2", "ada"),
}
_FALLBACK_ARCHITECTURES: Final = (
    "hopper",
    "ampere",
    "ada",
    "blackwell",
    "blackwell-geforce",
    "blackwell-ultra",
    "xe2",
)

_WITNESS: Final = "attention_decode"
"""Operator that has records for every architecture with measured kernels."""
_NVIDIA: Final = (
    "kepler",
    "maxwell",
    "pascal",
    "volta",
    "turing",
    "ampere",
    "ada",
    "hopper",
    "blackwell",
    "rubin",
)

# Formats whose kernels work alike, nearest first. fp16 and bf16 run at one rate on every unit that has both.
_RELATED_DTYPES: Final[dict[str, tuple[str, ...]]] = {
    "fp32": ("bf16",),
    "tf32": ("bf16",),
    "bf16": ("fp16",),
    "fp16": ("bf16",),
    "fp8": ("fp8_block", "int8", "bf16"),
    "fp8_block": ("fp8", "int8", "bf16"),
    "int8": ("fp8", "fp8_block", "bf16"),
    "fp6": ("fp8", "fp8_block", "nvfp4", "bf16"),
    "nvfp4": ("mxfp4", "w4a8_mxfp4", "fp8", "bf16"),
    "mxfp4": ("nvfp4", "w4a8_mxfp4", "fp8", "bf16"),
    "w4a8_mxfp4": ("mxfp4", "nvfp4", "fp8_block", "fp8", "bf16"),
    "mxfp4_wo": ("int4_wo", "int8_wo", "bf16"),
    "int4_wo": ("mxfp4_wo", "int8_wo", "bf16"),
    "int8_wo": ("int4_wo", "mxfp4_wo", "bf16"),
    "nf4": ("bf16",),
    "w4a8": ("w4a8_mxfp4", "fp8", "fp8_block", "int8", "bf16"),
    "codebook_wo": ("int4_wo", "mxfp4_wo", "int8_wo", "bf16"),
    "sparse24": ("bf16",),
    "exl3": (),
}
# Families of stored files (GGUF), whose kernels read weights in blocks. ggml-cuda multiplies all of them by one kernel,
# on bytes (mul_mat_vec_q, mul_mat_q), and 16 bits by another. Metal multiplies in floats and widens 8 bits like 16.
# Sources: llama.cpp, ggml/src/ggml-cuda/mmvq.cu and ggml-metal/ggml-metal.metal.
_FILE_OPERATORS: Final = ("local_decode", "local_prefill", "mlx_decode", "mlx_prefill")
_ONE_KERNEL: Final[dict[str, tuple[str, ...]]] = {
    "q4_k_m": ("mxfp4", "q8_0"),
    "mxfp4": ("q4_k_m", "q8_0"),
    "q8_0": ("q4_k_m", "mxfp4"),
}
_ONE_FLOAT_KERNEL: Final[dict[str, tuple[str, ...]]] = {
    "q4_k_m": ("mxfp4",),
    "mxfp4": ("q4_k_m",),
    "q8_0": ("bf16",),
}
_ALIASES: Final[dict[str, str]] = {"int4": "int4_wo", "w4a16": "int4_wo", "fp16": "bf16"}


@dataclass(frozen=True, slots=True)
class ResolvedEfficiency:
    """Record of an efficiency, and the pair that it was measured for if that is not the requested pair."""

    record: EfficiencyRecord
    transferred_from: str = ""
    """`<architecture>/<dtype>` of the relative; empty if the record is for exactly the requested pair."""
    asked: str = ""
    """Requested architecture."""

    @property
    def median_abs_error(self) -> float:
        """Expected median of |predicted / measured - 1|: of the fit, or of the transfer if there was one."""
        own = self.record.residual.median_abs_error
        return max(own, transfer_error(self.record.operator, self.asked)) if self.transferred_from else own


@lru_cache(maxsize=4096)
def efficiency(
    architecture: str, operator: str, dtype: str, engine: str = ANY_ENGINE, without: str = ""
) -> ResolvedEfficiency:
    """Return the fitted parameters of an operator, from the nearest relative if the pair was not measured.

    The candidate with the least distance wins: places along the list of relatives of the architecture plus places along
    the list of related formats, where formats of one kernel share a place; on a tie, the format that is nearer to the
    requested one. The engine's own level is used if it exists, else the level over all engines. `without` hides one
    architecture's records, to measure the error of a transfer. evidence/fit measures that error, which is stored with
    the records.

    Raises: UnknownNameError: the operator has no records at all.
    """
    measured = tuple(name for name in _measured_architectures(operator) if name != without)
    if not measured:
        raise UnknownNameError(
            f"no fitted efficiency for operator {operator!r}",
            why="the catalog holds no record of it",
            fix="use one of: " + ", ".join(operators()),
        )
    wanted = _ALIASES.get(dtype, dtype)
    chain = _architecture_chain(architecture, measured)
    formats = _formats_by_distance(architecture, operator, wanted)
    best: tuple[int, int, EfficiencyRecord] | None = None
    for place, relative in enumerate(chain):
        if best is not None and place > best[0]:
            break  # later entries cannot be nearer, so their files need not be parsed
        records = _records(operator, relative)
        for order, (candidate, distance) in enumerate(formats):
            record = records.get((candidate, engine)) or records.get((candidate, ANY_ENGINE))
            if record is not None and (best is None or (place + distance, order) < best[:2]):
                best = (place + distance, order, record)
    if best is None:
        raise UnknownNameError(
            f"no fitted efficiency of {operator} for format {dtype!r}",
            why="neither the format nor a related one was measured on any architecture",
            fix="use one of: " + ", ".join(sorted(_RELATED_DTYPES)),
        )
    record = best[2]
    exact = record.architecture == architecture and record.dtype == wanted
    return ResolvedEfficiency(record, "" if exact else f"{record.architecture}/{record.dtype}", architecture)


def transfer_error(operator: str, architecture: str = "hopper") -> float:
    """Median of |predicted / measured - 1| when a relative's record stands in for an architecture.

    Measured by hiding each measured architecture in turn (evidence/fit/transfer.py), which covers neighbours of one
    vendor. Across vendors, and for operators with too few measurements, it is 0.3: the error of records of other GPUs
    on the one Intel part that was measured.
    """
    same_vendor = architecture.startswith(_NVIDIA)
    return _transfer_errors().get(operator, OTHER_VENDOR_ERROR) if same_vendor else OTHER_VENDOR_ERROR


def is_measured(architecture: str) -> bool:
    """Whether kernels were measured on an architecture, or on one of its vendor, whose libraries are as mature."""
    return architecture.startswith(_NVIDIA) or architecture in _measured_architectures(_WITNESS)


def operators() -> tuple[str, ...]:
    """Return the names of the operators that have fitted records."""
    return tuple(dict.fromkeys(name.split("/")[0] for name in _files() if "/" in name))


def records(operator: str) -> tuple[EfficiencyRecord, ...]:
    """Return all records of an operator, by architecture, format and engine."""
    return tuple(
        record
        for architecture in _measured_architectures(operator)
        for record in _records(operator, architecture).values()
    )


def measured_operators(architecture: str) -> tuple[str, ...]:
    """Return the operators whose kernels were measured on an architecture itself, sorted."""
    return tuple(name for name in operators() if architecture in _measured_architectures(name))


def _formats_by_distance(architecture: str, operator: str, wanted: str) -> tuple[tuple[str, int], ...]:
    """Return the requested format and those that may stand in for it, nearest first, each with its distance."""
    kernels = _ONE_FLOAT_KERNEL if architecture.startswith("apple") else _ONE_KERNEL
    same = kernels.get(wanted, ()) if operator in _FILE_OPERATORS else ()
    others = ("bf16",) if same else _RELATED_DTYPES.get(wanted, ("bf16",))
    near = ((name, 0) for name in (wanted, *same))
    return (*near, *((name, place) for place, name in enumerate(others, start=1) if name not in same))


def _architecture_chain(architecture: str, measured: tuple[str, ...]) -> tuple[str, ...]:
    relatives = _RELATIVES.get(architecture)
    if relatives is None:
        family = next((name for name in _RELATIVES if architecture.startswith(name)), "")
        relatives = (family, *_RELATIVES.get(family, ()))
    chain = dict.fromkeys((architecture, *relatives, *_FALLBACK_ARCHITECTURES, *measured))
    return tuple(name for name in chain if name in measured)


@lru_cache(maxsize=1)
def _transfer_errors() -> dict[str, float]:
    found = read_toml(_FOLDER / "transfer.toml")["median_abs_error"]
    return {operator: float(error) for operator, error in found.items()}


@lru_cache(maxsize=64)
def _measured_architectures(operator: str) -> tuple[str, ...]:
    return tuple(name.split("/")[1] for name in _files() if name.startswith(f"{operator}/"))


@lru_cache(maxsize=1)
def _files() -> tuple[str, ...]:
    return toml_names(_FOLDER)


@lru_cache(maxsize=512)
def _records(operator: str, architecture: str) -> dict[tuple[str, str], EfficiencyRecord]:
    if f"{operator}/{architecture}" not in _files():
        return {}
    data = read_toml(_FOLDER / operator / f"{architecture}.toml")
    shared = {"architecture": architecture, "operator": operator, "source": data["source"]}
    found = (EfficiencyRecord.model_validate({**shared, **entry}) for entry in data["records"])
    return {(record.dtype, record.engine): record for record in found}


class Fitted:
    """Base of the dataclasses of an operator's parameters; a subclass names its fields after the parameters of its
    records."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]]

    @classmethod
    def from_record(cls, record: EfficiencyRecord) -> Self:
        """Return the parameters of a record; a field for the number format takes the record's.

        Raises: TypeError: a parameter is missing.
        """
        values: dict[str, Any] = record.parameters | {"dtype": record.dtype, "compute_dtype": record.dtype}
        return cls(**{name: values[name] for name in cls.__match_args__ if name in values})

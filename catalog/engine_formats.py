"""Which weight and cache formats an engine serves on an accelerator."""

from functools import cache

from advisor.catalog.files import DATA_DIR, checked, read_toml
from advisor.catalog.schema import Accelerator, Engine, Model
from advisor.catalog.schema.record import Record, Source


class NativeFormats(Record):
    """Formats that an engine only serves where the accelerator multiplies in them, with the key of that peak."""

    formats: dict[str, str]
    source: Source


@cache
def _native() -> dict[str, NativeFormats]:
    path = DATA_DIR / "native_formats.toml"
    return {name: checked(NativeFormats, entry, path.name) for name, entry in read_toml(path).items()}


def weight_formats(engine: Engine, accelerator: Accelerator) -> tuple[str, ...]:
    """Weight formats that an engine serves on an accelerator, in the engine's order.

    Source: engine records; data/native_formats.toml.
    """
    native = _native().get(engine.id)
    needs = {} if native is None else native.formats
    listed = engine.vendor_weight_dtypes.get(accelerator.vendor, engine.weight_dtypes)
    return tuple(name for name in listed if name not in needs or needs[name] in accelerator.peak_flop_per_s)


def lacks_arithmetic(engine: Engine, accelerator: Accelerator, weight_dtype: str) -> bool:
    """Whether the engine serves a weight format, but not on this accelerator, which does not multiply in it.

    Source: weight_formats.
    """
    native = _native().get(engine.id)
    peak = None if native is None else native.formats.get(weight_dtype)
    return peak is not None and peak not in accelerator.peak_flop_per_s


class QualityNote(Record):
    note: str
    source: str


@cache
def _notes() -> dict[str, QualityNote]:
    path = DATA_DIR / "quality.toml"
    return {name: checked(QualityNote, entry, path.name) for name, entry in read_toml(path).items()}


def quality_note(model: Model, weight_dtype: str) -> str:
    """One sentence on what serving a model in a weight format costs in quality, with its source.

    Source: data/quality.toml.
    """
    if weight_dtype == model.weights:
        return f"{weight_dtype} is the published checkpoint's own format."
    found = _notes().get(weight_dtype)
    if found is None:
        return f"no published evaluation of {weight_dtype} is in the catalog"
    return f"{found.note} ({found.source})" if found.source else found.note

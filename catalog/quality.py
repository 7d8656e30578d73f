"""What a weight format costs in quality, in the words of the literature; never a made-up number."""

from functools import cache

from advisor.catalog.files import DATA_DIR, checked, read_toml
from advisor.catalog.schema import Model
from advisor.catalog.schema.record import Record


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

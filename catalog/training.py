"""Memory use of training frameworks, by family or by a framework's own name."""

import shlex
from collections.abc import Mapping
from functools import cache
from typing import Final

from advisor.catalog.files import DATA_DIR, check_record, read_csv, read_toml
from advisor.catalog.releases import version_key
from advisor.catalog.resolve import drop_separators
from advisor.catalog.schema.training_release import FirstRelease
from advisor.catalog.schema.training_software import TrainingAllocator, TrainingSoftware
from advisor.catalog.schema.tuner import Tuner

_FILE: Final = DATA_DIR / "training" / "memory.toml"
_OPTIONS: Final = DATA_DIR / "training" / "launch_options.toml"
_MODELS: Final = DATA_DIR / "training" / "models.toml"
_TEMPLATES: Final = DATA_DIR / "training" / "chat_templates.csv"
_TUNERS: Final = DATA_DIR / "training" / "tuners.toml"
_RELEASES: Final = DATA_DIR / "training" / "releases.toml"


@cache
def all_software() -> tuple[TrainingSoftware, ...]:
    """Return every framework record, in the file's order.

    Raises: InputFileError: the bundled file is damaged.
    """
    rows = read_toml(_FILE)["software"]
    return tuple(check_record(TrainingSoftware, row, f"{_FILE} {row.get('id', '')}") for row in rows)


@cache
def allocator() -> TrainingAllocator:
    """Return the caching allocator of PyTorch, and the memory that a process holds in addition.

    Raises: InputFileError: the bundled file is damaged.
    """
    return check_record(TrainingAllocator, read_toml(_FILE)["allocator"], f"{_FILE} allocator")


@cache
def months_of_versions(package: str) -> Mapping[str, str]:
    """Return the month in which each minor version of a package was first uploaded, as in {"2.11": "2026-03"}.

    Source: data/training/releases.toml.
    """
    found = read_toml(_RELEASES)["months"]
    return {str(version): str(month) for version, month in found[package].items()}


@cache
def first_releases() -> Mapping[tuple[str, str], FirstRelease]:
    """Return the first release of each framework with a feature, by framework and feature.

    Raises: InputFileError: the bundled file is damaged.
    Source: data/training/releases.toml, commit or package for each.
    """
    rows = read_toml(_RELEASES)["features"]
    found = (check_record(FirstRelease, row, f"{_RELEASES} {row.get('feature', '')}") for row in rows)
    return {(first.framework, first.feature): first for first in found}


@cache
def framework_release(name: str) -> str:
    """Return the release of a training framework whose options are printed, and what installs it.

    Source: data/training/launch_options.toml, tuners.toml.
    """
    table = tuners()[name].model_dump() if name in tuners() else read_toml(_OPTIONS)[name]
    release = str(table["release"])
    if not table.get("packages"):
        return release
    python = f" (Python {table['python']} or newer)" if table.get("python") else ""
    packages = shlex.join(table["packages"])
    return f"{release}: pip install {packages}" + python


@cache
def defines_model(framework: str, family: str) -> bool:
    """Whether a framework's release has a definition of a model type, or options that describe it; True for a
    framework without a list.

    Source: data/training/models.toml.
    """
    table = read_toml(_MODELS).get(framework, {})
    return family in table["names"] if "names" in table else family not in table.get("without", ())


@cache
def has_stages(framework: str, family: str) -> bool:
    """Whether a framework's release can divide the layers of a model type into pipeline stages.

    Source: data/training/models.toml.
    """
    return family not in read_toml(_MODELS).get(framework, {}).get("without_stages", ())


@cache
def model_words(framework: str, family: str, model: str) -> tuple[str, str]:
    """Return what a framework calls a model and its size; FLAVOR if the release has no definition of that size.

    Source: data/training/models.toml.
    """
    return str(read_toml(_MODELS)[framework]["names"][family]), flavor_of(framework, model) or "FLAVOR"


@cache
def flavor_of(framework: str, model: str) -> str:
    """Return what a framework calls a model of the catalog; empty if its release has no definition of that size.

    Source: data/training/models.toml.
    """
    return str(read_toml(_MODELS)[framework]["flavors"].get(model, ""))


@cache
def recipe_of(model: str, *, is_tuning: bool) -> str:
    """Return the function of Megatron-Bridge that makes the recipe of a model of the catalog; RECIPE if its release has
    none.

    Source: data/training/models.toml.
    """
    stem = flavor_of("nemo", model)
    if not stem or (is_tuning and stem in read_toml(_MODELS)["nemo"]["no_tuning"]):
        return "RECIPE"
    return f"{stem}_{'finetune' if is_tuning else 'pretrain'}_config"


@cache
def attention_of(family: str) -> str:
    """Return what computes a model type's attention in Transformers: FlashAttention-2, a kernel of the type's own,
    PyTorch's (sdpa), or products with stored scores (eager).

    Source: data/training/models.toml.
    """
    return str(read_toml(_MODELS)["transformers"]["attention"].get(family, "flash_attention_2"))


@cache
def attention_matrices(family: str) -> tuple[str, ...]:
    """Return the names of the matrices of queries, keys, values and outputs in Transformers' attention of a model type;
    empty if the type has other ones, or if its names are not known.

    Source: data/training/models.toml.
    """
    rows = read_toml(_MODELS)["transformers"]["attention_matrices"]
    return next((tuple(names.split()) for names, families in rows.items() if family in families), ())


@cache
def all_attention_matrices() -> tuple[tuple[str, ...], ...]:
    """Return the names of attention's matrices in Transformers by kind of model, those that are in one included.

    Source: data/training/models.toml.
    """
    table = read_toml(_MODELS)["transformers"]
    return tuple(
        tuple(names.split())
        for kind in ("attention_matrices", "joint_attention_matrices")
        for names in table[kind]
    )


@cache
def is_in_transformers(framework: str, family: str) -> bool:
    """Whether the newest release of Transformers that a framework takes has a model type; True for a type that no
    release that was read has, whose code lies in its repository.

    Source: data/training/models.toml.
    """
    table = read_toml(_MODELS)["transformers"]
    newest = table["newest"].get(framework)
    since = table["since"].get(family)
    return newest is None or since is None or version_key(newest) >= version_key(since)


@cache
@cache
def families_with_adapted_experts() -> frozenset[str]:
    """Return the model types whose routed experts PEFT gives adapters as it does linear matrices.

    Raises: InputFileError: the bundled file is damaged.
    Source: data/training/memory.toml.
    """
    return frozenset(read_toml(_FILE)["adapted_experts"]["families"])


def software_of(family: str, name: str = "") -> TrainingSoftware:
    """Return the record of a framework: by its whole name after an equals sign, or a word in it within its family, else
    the family's own, else the record of plain PyTorch (fsdp)."""
    words = name.casefold()
    for record in all_software():
        if f"={words}" in record.names:
            return record
        if record.family == family and any(word in words for word in record.names):
            return record
    by_family = {record.family: record for record in reversed(all_software())}
    return by_family.get(family, by_family["fsdp"])


@cache
def tuners() -> Mapping[str, Tuner]:
    """Return the frameworks that have settings files of their own, by name.

    Raises: InputFileError: the bundled file is damaged.
    Source: data/training/tuners.toml.
    """
    rows = read_toml(_TUNERS)["tuner"]
    found = (check_record(Tuner, row, f"{_TUNERS} {row.get('id', '')}") for row in rows)
    return {record.id: record for record in found}


def loads_divided(software: str) -> bool:
    """Whether a framework divides 4-bit weights over ranks as it reads them."""
    return software in tuners() and tuners()[software].loads_divided


@cache
def chat_template_of(framework: str, repositories: tuple[str, ...]) -> str:
    """Return a framework's own name of the template for the first of the repositories that has one; empty without.

    Source: data/training/chat_templates.csv, written by tools/read_chat_templates.py.
    """
    rows = read_csv(_TEMPLATES, ("framework", "repository", "template", "source"))
    found = {cells["repository"]: cells["template"] for _, cells in rows if cells["framework"] == framework}
    return next((found[name] for name in repositories if name in found), "")


@cache
def tuner_named(name: str) -> Tuner | None:
    """Return the record of a framework that a user names, whatever its case and marks; None if it has no settings file
    of its own."""
    plain = drop_separators(name)
    known = tuners().values()
    return next((one for one in known if plain in map(drop_separators, (one.id, *one.names))), None)

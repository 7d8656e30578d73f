"""Look up the options of printed training commands in the releases that declare them.

    python tools/check_training_options.py FOLDER

FOLDER holds unpacked wheels of PyPI: trl, transformers, accelerate, torchtitan, verl, openrlhf, deepspeed,
megatron_bridge, megatron_core and maxtext, of the releases in catalog/data/training/launch_options.toml; axolotl,
llamafactory, ms-swift, torchtune, unsloth and xtuner, of those in tuners.toml; and, of their
repositories, what no wheel has: Megatron-LM/megatron/training and Megatron-Bridge/scripts/training. Nothing of
them is imported or run: names are read from fields of classes, calls of `add_argument`, and keys of configurations.
A key of a settings file counts as declared if each of its words is a field, an argument or a key of the files that
read it.
Names of models in catalog/data/training/models.toml are looked up too: sizes of torchtitan, recipes of Megatron-Bridge,
configurations of MaxText, and the kernels of attention that classes of Transformers refuse.
"""

import argparse
import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from advisor.catalog.files import DATA_DIR, read_toml
from advisor.catalog.schema.tuner import Tuner
from advisor.catalog.training import tuners
from advisor.simulator.training.launch_settings import PARTS

TABLE: Final = DATA_DIR / "training" / "launch_options.toml"
MODELS: Final = DATA_DIR / "training" / "models.toml"
_TRL: Final = (
    "trl/trainer/*.py",
    "trl/scripts/*.py",
    "trl/experimental/orpo/*.py",
    "transformers/training_args.py",
)
_NEMO: Final = (
    "model",
    "dataset",
    "dist",
    "train",
    "optimizer",
    "ddp",
    "checkpoint",
    "comm_overlap",
    "scheduler",
)
"""Parts of a configuration of Megatron-Bridge; a field counts in each, as models inherit from classes of the core."""
_VERL: Final = "verl/trainer/config/_generated_ppo_{}trainer.yaml"

_TUNERS: Final = {
    "axolotl": ("axolotl/utils/schemas/*.py",),
    "llama-factory": ("llamafactory/hparams/*.py", "transformers/training_args.py"),
    "ms-swift": (
        *("swift/arguments/**/*.py", "swift/trainers/arguments.py", "swift/config/*.json"),
        "swift/rlhf_trainers/args_mixin.py",
        "transformers/training_args.py",
    ),
    "torchtune": (
        *("recipes/configs/**/*.yaml", "recipes/*.py", "torchtune/datasets/*.py"),
        "torchtune/models/**/_model_builders.py",
    ),
    "unsloth": ("unsloth/models/*.py", "trl/trainer/*.py", "transformers/training_args.py"),
    "xtuner": ("xtuner/configs/**/*.py", "xtuner/model/*.py", "xtuner/dataset/*.py", "xtuner/engine/**/*.py"),
}
"""Files that declare the settings of each framework with settings of its own."""
_ACCELERATOR: Final = ("transformers/trainer_pt_utils.py", "accelerate/utils/dataclasses.py")
"""Files that declare what the setting accelerator_config of Transformers' trainers holds."""
_CALLS: Final = ("load", "peft", "args")
"""Tables of a Python program that stand for its calls."""


def fields_of(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield class, field and annotation of every field of the classes in a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    yield node.name, each.target.id, ast.unparse(each.annotation)


def arguments_of(path: Path) -> Iterator[str]:
    """Yield the names of options that calls of `add_argument`, or lists of names, declare in a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        named: list[ast.expr] = []
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            named = node.args
        elif isinstance(node, ast.List):
            named = node.elts
        for one in named:
            if isinstance(one, ast.Constant) and str(one.value).startswith("--"):
                yield str(one.value)


def paths_of(classes: dict[str, dict[str, str]], root: str, before: str = "") -> Iterator[str]:
    """Yield the dotted paths of the fields of nested configuration classes."""
    for field, kind in classes.get(root, {}).items():
        inner = kind.split("|")[0].strip()
        if inner in classes:
            yield from paths_of(classes, inner, f"{before}{field}.")
        else:
            yield f"{before}{field}"


def keys_of(content: Any, before: str = "") -> Iterator[str]:
    """Yield the dotted paths of a configuration's keys."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield f"{before}{key}"
            yield from keys_of(value, f"{before}{key}.")


def read_declarations(folder: Path, name: str) -> set[str] | None:
    """Return the options that the release of a framework declares; None if they are not looked up."""
    found: set[str] = set()
    if name in ("trl", "deepspeed"):
        for pattern in _TRL:
            for path in folder.glob(pattern):
                found |= {f"--{field}" for _, field, _ in fields_of(path)}
        found |= set(arguments_of(folder / "accelerate/commands/launch.py"))
        runner = next(
            folder.glob("deepspeed*/deepspeed/launcher/runner.py"), folder / "deepspeed/launcher/runner.py"
        )
        return found | (set(arguments_of(runner)) if runner.exists() else set())
    if name == "torchtitan":
        classes: dict[str, dict[str, str]] = {}
        for owner, field, kind in fields_of(folder / "torchtitan/config/job_config.py"):
            classes.setdefault(owner, {})[field] = kind
        return {f"--{path}" for path in paths_of(classes, "JobConfig")}
    if name == "megatron-lm":
        files = [*folder.glob("Megatron-LM/megatron/training/**/*.py"), *folder.glob("megatron/core/**/*.py")]
        # Fields of its configurations are options of their own.
        fields = {field for path in files for _, field, _ in fields_of(path)}
        found = {option for path in files for option in arguments_of(path)}
        return found | {f"--{field.replace('_', '-')}" for field in fields}
    if name == "nemo":
        script = set(arguments_of(folder / "Megatron-Bridge/scripts/training/run_recipe.py"))
        fields = {field for path in folder.glob("megatron/**/*.py") for _, field, _ in fields_of(path)}
        specs = {f"dataset.packed_sequence_specs.{field}" for field in fields}
        return (
            script | {f"{part}.{field}" for part in _NEMO for field in fields} | specs | {"mixed_precision"}
        )
    if name == "maxtext":
        return set(keys_of(yaml.safe_load((folder / "maxtext/configs/base.yml").read_text())))
    if name in ("verl", "verl-megatron"):
        whole = yaml.safe_load((folder / _VERL.format("megatron_" if "megatron" in name else "")).read_text())
        return {"--config-name", *keys_of(whole), *(f"+{path}" for path in keys_of(whole))}
    if name == "openrlhf":
        runner = folder / "deepspeed/launcher/runner.py"
        files = [*folder.rglob("openrlhf/cli/train_*.py"), *([runner] if runner.exists() else [])]
        return {option for path in files for option in arguments_of(path)}
    return None


def names_in(path: Path) -> Iterator[str]:
    """Yield the names of fields, arguments, keywords and keys in a file of Python, YAML or JSON."""
    text = path.read_text()
    if path.suffix != ".py":
        content = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
        yield from (name for key in keys_of(content) for name in key.split("."))
        return
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.Call(func=ast.Attribute(attr="get" | "pop"), args=[ast.Constant(value=str(name)), *_]):
                yield name


def keys_of_tuner(record: Tuner) -> Iterator[str]:
    """Yield every key that settings of a framework may have, with those of tables in lists."""
    tables = [record.always]
    for part in PARTS:
        tables += (getattr(record, part) or {}).values()
    for table in tables:
        for key, value in table.items():
            if not key.startswith("$"):
                yield key
                yield from keys_of(value, f"{key}.")
                for inner in value if isinstance(value, list) else ():
                    yield from keys_of(inner, f"{key}.")


def absent_settings(folder: Path, record: Tuner) -> list[str]:
    """Return the keys and configurations that a framework's release does not have."""
    files = [path for pattern in (*_TUNERS[record.id], *_ACCELERATOR) for path in folder.glob(pattern)]
    known = {name for path in files for name in names_in(path)}
    keys = {key for key in keys_of_tuner(record) if set(key.split(".")) - {*known, *_CALLS}}
    places = {
        *(path.stem for path in folder.glob("xtuner/configs/**/*.py")),
        *(str(path.relative_to(folder))[16:-5] for path in folder.glob("recipes/configs/**/*.yaml")),
    }
    return sorted(keys | (set(record.configurations) - places))


def absent_models(folder: Path) -> Iterator[str]:
    """Yield the names of models, as their frameworks are told them, that the releases do not have."""
    tables = read_toml(MODELS)
    sizes = "".join(path.read_text() for path in folder.glob("torchtitan/models/**/__init__.py"))
    for flavor in set(tables["torchtitan"]["flavors"].values()):
        if f'"{flavor}":' not in sizes:
            yield f"torchtitan {flavor}"
    recipes = "".join(path.read_text() for path in folder.glob("megatron/bridge/recipes/*/*.py"))
    for stem in set(tables["nemo"]["flavors"].values()):
        tunes = stem not in tables["nemo"]["no_tuning"]
        for kind, is_said in (("pretrain", True), ("finetune", tunes)):
            if (f"def {stem}_{kind}_config(" in recipes) != is_said:
                yield f"nemo {stem}_{kind}_config"
    for name in set(tables["maxtext"]["flavors"].values()):
        if not (folder / "maxtext/configs/models" / f"{name}.yml").exists():
            yield f"maxtext {name}"
    for path in folder.glob("transformers/models/*/modeling_*.py"):
        family = path.parent.name
        runs_flash = "_supports_flash_attn = True" in path.read_text()
        kernel = tables["transformers"]["attention"].get(family, "")
        if kernel and runs_flash != ("flash" in kernel):
            yield f"transformers {family} {kernel}"


def main() -> int:
    """Say which options and models of the tables no release declares, and return 1 if there are any."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("folder", type=Path)
    folder = asked.parse_args().folder
    wrong = 0
    for name, table in read_toml(TABLE).items():
        known = read_declarations(folder, name)
        if known is None:
            print(f"{name} {table['release']}: not looked up")
            continue
        absent = sorted(set(table["options"]) - known)
        print(f"{name} {table['release']}: {len(table['options'])} options, absent: {absent}")
        wrong += len(absent)
    for record in tuners().values():
        gone = absent_settings(folder, record)
        print(f"{record.release}: {len(set(keys_of_tuner(record)))} settings, absent: {gone}")
        wrong += len(gone)
    lacking = sorted(absent_models(folder))
    print(f"models, absent: {lacking}")
    wrong += len(lacking)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())

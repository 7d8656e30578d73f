"""Writer of `catalog/data/nested_defaults.toml`: what classes of transformers take for fields that a config.json omits.

Run it with an interpreter that has the transformers library: `python tools/write_nested_defaults.py`. Only fields that
readers in `catalog/hf` read are written, of classes that stand in a section of another class.
"""

import ast
import datetime
import importlib.metadata
import inspect
import json
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
READERS: Final = ROOT / "catalog" / "hf"
FILE: Final = ROOT / "catalog" / "data" / "nested_defaults.toml"
SECTIONS: Final = (
    "text_config",
    "llm_config",
    "language_config",
    "thinker_config",
    "vision_config",
    "audio_config",
)
LISTS: Final = ("deepstack_visual_indexes", "image_size", "patch_size", "merge_kernel_size")
"""Lists that do not depend on the number of layers."""
LEFT_OUT: Final = (
    "model_type",
    "architectures",
    "tie_word_embeddings",
    "dtype",
    "torch_dtype",
    "auto_map",
    "_name_or_path",
    "is_encoder_decoder",
)
"""Fields that say which class it is, or that both a section and the whole file may state."""
_HEAD: Final = """\
# Fields of sections that a config.json leaves out, because the transformers library writes only what differs from the
# class: text_config and vision_config of multimodal models. Written by tools/write_nested_defaults.py.
#
# section: class of each section by the model type of the whole file
# class: default of each field that is read, by the model type of the section

[source]
kind = "datasheet"
title = "huggingface/transformers {version}, src/transformers/models/*/configuration_*.py (Apache-2.0)"
where = "defaults of the configuration classes, read from instances of them"
accessed = "{day}"
"""


def list_read_fields() -> set[str]:
    """Return every text that stands in the readers' code: the names of fields are among them."""
    trees = (ast.parse(path.read_text()) for path in READERS.glob("*.py"))
    nodes = (node for tree in trees for node in ast.walk(tree))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def read_defaults(fields: set[str]) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, Any]]]:
    """Return the class of each section by model type, and the defaults of each class that stands in one."""
    mapping = importlib.import_module("transformers").CONFIG_MAPPING
    sections: dict[str, dict[str, str]] = {}
    nested: set[str] = set()
    for model_type, cls in mapping.items():
        try:
            values = cls().to_dict()
        except Exception:  # a class that needs arguments has no defaults of its own
            continue
        own = {
            name: values[name].get("model_type") for name in SECTIONS if isinstance(values.get(name), dict)
        }
        own = {name: kind for name, kind in own.items() if kind in mapping}
        if own:
            sections[model_type] = own
            nested |= set(own.values())
    # Sections name a class of their own, mostly that of a language model that also stands alone.
    nested |= {kind for kind in mapping if kind not in sections}
    classes = {}
    for kind in sorted(nested):
        try:
            values = mapping[kind]().to_dict()
        except Exception:
            continue
        kept = {
            name: value
            for name, value in sorted(values.items())
            if name in fields and name not in LEFT_OUT and _is_kept(name, value, mapping[kind])
        }
        if {"num_hidden_layers", "num_layers", "n_layer", "depth", "n_layers"} & set(kept):
            classes[kind] = kept
    return sections, classes


def _is_kept(name: str, value: object, cls: type) -> bool:
    """Whether a field has a plain default that the class states; those worked out from other fields are not."""
    parameter = inspect.signature(cls).parameters.get(name)
    stated = getattr(cls, name, parameter.default if parameter else None)
    if stated != value:
        return False
    if isinstance(value, list | tuple):
        return name in LISTS
    return isinstance(value, bool | int | float | str)


def main() -> None:
    """Write the file: classes with a section that is a language model which readers know, and classes of sections."""
    listed = (ROOT / "catalog/data/model_types.txt").read_text().splitlines()[1:]
    known = {name for line in listed for name in line.split()}
    sections, classes = read_defaults(list_read_fields())
    sections = {name: own for name, own in sections.items() if name in known or known & set(own.values())}
    kept = {kind for own in sections.values() for kind in own.values()} | known
    day = datetime.date.today().isoformat()
    lines = [_HEAD.format(version=importlib.metadata.version("transformers"), day=day), "[section]"]
    lines += [f"{name} = {_row(own)}" for name, own in sorted(sections.items())]
    lines += ["", "[class]"]
    lines += [f"{kind} = {_row(row)}" for kind, row in classes.items() if kind in kept]
    FILE.write_text("\n".join(lines) + "\n")


def _row(values: dict[str, Any]) -> str:
    return "{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in values.items()) + " }"


if __name__ == "__main__":
    main()

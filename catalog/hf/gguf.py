"""Reader of the header of a GGUF file: shape from its metadata, and the storage of each part from its tensors."""

import functools
import struct
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from advisor.catalog.dtypes import DTYPES, bytes_per_element
from advisor.catalog.errors import InputFileError
from advisor.catalog.files import DATA_DIR, read_toml
from advisor.catalog.schema.model import Part, PartFormat
from advisor.catalog.units import BITS_PER_BYTE

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING: Final = 8
_ARRAY: Final = 9
_MOST_ENTRIES: Final = 5_000_000
"""Most entries of a list or tensors of a file; vocabularies have up to 262,144."""
_MOST_CHARACTERS: Final = 10_000_000
_MOST_DIMENSIONS: Final = 8


@functools.cache
def tables() -> Mapping[str, Mapping[str, Any]]:
    """Return what the numbers and keys of GGUF files stand for.

    Source: data/gguf.toml, each table with its source.
    """
    return read_toml(DATA_DIR / "gguf.toml")


def is_gguf(path: Path) -> bool:
    """Whether a file is there and begins as GGUF files do."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


class GgufHeader(NamedTuple):
    """GgufHeader of a GGUF file."""

    names: tuple[str, ...]
    """Names of the model that it holds, and of its base."""
    hidden_size: int
    num_layers: int
    shape: Mapping[str, Any]
    """Fields of a config.json; empty if the keys of its architecture do not say all that counts."""
    storage: Mapping[str, Any]
    """Storage of its tensors as fields of a model."""


def read_header(path: Path) -> GgufHeader:
    """Return what the header of a GGUF file says of its model.

    Raises: InputFileError: the header is cut or damaged.
    """
    try:
        with path.open("rb") as file:
            metadata, tensors = _read(file)
    except (struct.error, UnicodeDecodeError, OverflowError, MemoryError, ValueError):
        raise InputFileError(
            f"{path}: the header of the GGUF file is damaged",
            why="it ends early or holds values that no file has",
            fix="download the file again, or name the model: --model NAME:Q4_K_M",
        ) from None
    architecture = metadata.get("general.architecture")
    sizes = [metadata.get(f"{architecture}.{key}") for key in ("embedding_length", "block_count")]
    hidden, layers = (size if isinstance(size, int) else 0 for size in sizes)
    keys = ("general.name", "general.base_model.0.name", "general.base_model.0.repo_url")
    names = [str(metadata[key]) for key in keys if metadata.get(key)]
    return GgufHeader(tuple(names), hidden, layers, _shape(metadata, tensors), _storage(metadata, tensors))


Tensors = list[tuple[str, int, int]]
"""Name, number of weights and number of the type of each tensor."""


def _read(file: BinaryIO) -> tuple[dict[str, Any], Tensors]:
    magic, version, num_tensors, num_keys = struct.unpack("<4sIQQ", file.read(24))
    if magic != _MAGIC or version not in _VERSIONS or max(num_tensors, num_keys) > _MOST_ENTRIES:
        raise ValueError
    metadata = {}
    for _ in range(num_keys):
        name = _text(file)
        metadata[name] = _value(file, _number(file, "I"))
    tensors: Tensors = []
    for _ in range(num_tensors):
        name = _text(file)
        elements = 1
        num_dimensions = _number(file, "I")
        if num_dimensions > _MOST_DIMENSIONS:
            raise ValueError
        for _ in range(num_dimensions):
            elements *= _number(file, "Q")
        kind, _ = struct.unpack("<IQ", file.read(12))
        tensors.append((name, elements, kind))
    return metadata, tensors


def _number(file: BinaryIO, letter: str) -> Any:
    return struct.unpack(f"<{letter}", file.read(struct.calcsize(letter)))[0]


def _text(file: BinaryIO) -> str:
    length = _number(file, "Q")
    if length > _MOST_CHARACTERS:
        raise ValueError
    return file.read(length).decode("utf-8", errors="replace")


def _value(file: BinaryIO, kind: int) -> Any:
    """Return a value of the metadata; of a list of texts, such as a vocabulary, its length alone counts."""
    if kind == _STRING:
        return _text(file)
    if kind != _ARRAY:
        return _number(file, _SCALARS[kind]) if kind in _SCALARS else _fail()
    of = _number(file, "I")
    length = _number(file, "Q")
    if length > _MOST_ENTRIES or of == _ARRAY:
        raise ValueError
    return [_value(file, of) for _ in range(length)]


def _fail() -> Any:
    raise ValueError


def _shape(metadata: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    architecture = metadata.get("general.architecture")
    model_type = tables()["architectures"].get(str(architecture))
    if model_type is None:
        return {}
    found: dict[str, Any] = {"model_type": model_type, "_name_or_path": str(metadata.get("general.name", ""))}
    for key, field in tables()["fields"].items():
        value = metadata.get(f"{architecture}.{key}")
        if isinstance(value, list):
            value = value[0] if len(set(value)) == 1 else None
        if value is not None:
            found[field] = value
    found |= tables()["constants"].get(str(architecture), {})
    found |= _latent_sizes(metadata, str(architecture)) if "kv_lora_rank" in found else {}
    if found.get("num_nextn_predict_layers"):  # they are the last blocks of the file
        found["num_hidden_layers"] -= found["num_nextn_predict_layers"]
    if not found.get("num_experts"):
        found.pop("num_experts", None)
    elif model_type == "llama":  # Mixtral has the architecture of Llama
        found |= {"model_type": "mixtral", "num_local_experts": found["num_experts"]}
    tokens = metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, list):
        found.setdefault("vocab_size", len(tokens))
    table = next((elements for name, elements, _ in tensors if name == "token_embd.weight"), 0)
    if table and found.get("hidden_size"):
        found["vocab_size"] = table // found["hidden_size"]
    found["tie_word_embeddings"] = bool(table) and not any(name == "output.weight" for name, _, _ in tensors)
    return found


def _latent_sizes(metadata: dict[str, Any], architecture: str) -> dict[str, Any]:
    """Return the sizes of a head of latent attention. Files that keep the latent states in the cache have those of its
    heads under keys of their own; others have no such keys.

    Source: ggml-org/llama.cpp, convert_hf_to_gguf.py (DeepseekV2Model).
    """
    rotary = metadata.get(f"{architecture}.rope.dimension_count", 0)
    key, value = (
        metadata.get(
            f"{architecture}.attention.{name}_mla", metadata.get(f"{architecture}.attention.{name}", 0)
        )
        for name in ("key_length", "value_length")
    )
    return {
        "qk_rope_head_dim": rotary,
        "qk_nope_head_dim": key - rotary,
        "v_head_dim": value,
        "head_dim": None,
    }


def _storage(metadata: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    """Return the mix of a file, and the mean width of the weights of each part that its tensors show."""
    weights: dict[Part, float] = defaultdict(float)
    bits: dict[Part, float] = defaultdict(float)
    for name, elements, kind in tensors:
        part = _part_of(name)
        block = tables()["blocks"].get(str(kind))
        if part is not None and block is not None:
            per_block, num_bytes = block
            weights[part] += elements
            bits[part] += elements * BITS_PER_BYTE * num_bytes / per_block
    widths = {part: bits[part] / weights[part] for part in weights if weights[part]}
    dtype = tables()["mixes"].get(str(metadata.get("general.file_type")), "")
    if dtype not in DTYPES:
        body = max(widths, key=lambda part: weights[part], default=None)
        dtype = _nearest(widths[body]) if body else "q4_k_m"
    formats = tuple(
        PartFormat(part=part, dtype=dtype, bits_per_weight=width) for part, width in widths.items()
    )
    return {"weights": dtype, "part_formats": formats}


def _nearest(width: float) -> str:
    """Return the mix of which most weights are as wide as this [bits]."""
    mixes: list[str] = [name for name in tables()["mixes"].values() if name in DTYPES]
    return min(mixes, key=lambda name: abs(BITS_PER_BYTE * bytes_per_element(name) - width))


def _part_of(tensor: str) -> Part | None:
    """Return the part of a model that a tensor belongs to; None for norms, routers and biases."""
    if not tensor.endswith(".weight") or "norm" in tensor or "ffn_gate_inp" in tensor:
        return None
    if tensor.startswith("token_embd"):
        return "embedding"
    if tensor.startswith("output"):
        return "head"
    words = tensor.split(".")
    return next(
        (part for part, beginnings in _PARTS if any(word.startswith(beginnings) for word in words)), None
    )


_PARTS: Final[tuple[tuple[Part, tuple[str, ...]], ...]] = (
    ("experts", ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "ffn_gate_up_exps")),
    ("shared_experts", ("ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp")),
    ("feed_forward", ("ffn_gate", "ffn_up", "ffn_down")),
    ("mixer", ("attn_", "ssm_")),
)

"""Configuration files of every known family with one value of another kind: each is read, or refused by its field."""

import copy
import json
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.errors import InputFileError
from advisor.catalog.hf.config import model_from_hf_config
from advisor.catalog.schema import Model
from advisor.simulator.graph.model import kv_bytes_per_token, parameter_count

CONFIGS = sorted((Path(__file__).parent / "configs").glob("*.json"))
ODD = (
    *(
        None,
        -1,
        0,
        1,
        0.5,
        1e300,
        10**30,
        99_999_999,
        True,
        "",
        "x",
        "NaN",
        "a,b",
        "a\x1b[2J\u202eb\nc",
        "y" * 5_000,
    ),
    *(
        [],
        {},
        [[1]],
        {"a": 1},
        [None],
        [0] * 3,
        list(range(3_000)),
        [{}] * 16,
        {"a": None},
        {"weights": []},
        {"weights": {"num_bits": []}},
    ),
)
MOST_CHARACTERS = 600
MOST_PLACES = 12
"""Places of a file that are tried, drawn by its name: files of one family have most places in common."""
ADDED = (
    "block_configs",
    "quantization_config",
    "text_config",
    "vision_config",
    "config_groups",
    "layers_block_type",
)


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value below a value; of long lists the first three entries."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree[:3]) if isinstance(tree, list) else ()
    for key, value in inner:
        yield (*path, key)
        yield from places(value, (*path, key))


def with_value(tree: Any, path: tuple[Any, ...], value: object) -> Any:
    changed = copy.deepcopy(tree)
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return changed


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_a_value_of_another_kind_is_read_or_refused(file: Path, tmp_path: Path) -> None:
    draw = random.Random(file.stem)
    config = json.loads(file.read_text(encoding="utf-8"))
    found = [*places(config), *((name,) for name in ADDED)]
    found = draw.sample(found, min(MOST_PLACES, len(found)))
    target = tmp_path / "config.json"
    for path in found:
        for odd in draw.sample(ODD, 2):
            target.write_text(json.dumps(with_value(config, path, odd)), encoding="utf-8")
            try:
                model = model_from_hf_config(target)
            except InputFileError as error:
                check_message(error, target)
            else:
                check_model(model)


def check_message(error: InputFileError, file: Path) -> None:
    """A refusal names the file, and what it says can be printed and read."""
    assert str(file) in error.what
    assert error.fix
    for text in (error.what, error.why, error.fix, error.hint):
        assert text.isprintable(), repr(text)
        assert len(text) <= MOST_CHARACTERS + len(str(file)), text


def check_model(model: Model) -> None:
    """A model that is read has layers with weights, a size and a cache, and its record can be written and read."""
    assert any(group.mixer or group.feed_forward for group in model.layers)
    assert all(1 <= group.count <= 10_000 for group in model.layers)
    assert 0 < parameter_count(model).total < math.inf
    assert 0 <= kv_bytes_per_token(model).bytes_of(1_000) < math.inf
    assert model.name.isprintable()
    assert type(model).model_validate(model.model_dump()) == model


@pytest.mark.parametrize("field", ["block_configs", "layers_block_type", "layer_types", "architectures"])
def test_a_list_of_millions_is_refused_by_its_length(field: str, tmp_path: Path) -> None:
    config = json.loads((CONFIGS[0].parent / "llama-3.1-8b.json").read_text(encoding="utf-8"))
    config |= {field: ["moe"] * 1_000_000}
    if field == "architectures":
        config["model_type"] = "unknown"
    target = tmp_path / "config.json"
    target.write_text(json.dumps(config), encoding="utf-8")
    started = time.process_time()
    with pytest.raises(InputFileError, match="1,000,000 entries"):
        model_from_hf_config(target)
    assert time.process_time() - started < 10

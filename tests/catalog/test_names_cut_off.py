"""Names that nvidia-smi cuts off, and widths that Meta's params.json states by a factor."""

import json
from pathlib import Path

import pytest

from advisor.catalog import models
from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.machine_listing import read_machine


def smi(name: str, memory_mib: int) -> str:
    return (
        f"|   0  NVIDIA {name:<24}   Off |   00000000:01:00.0 Off |                  Off |\n"
        f"| 30%   38C    P8             22W /  300W |     512MiB /  {memory_mib}MiB |      0%      Default |\n"
    )


@pytest.mark.parametrize(
    ("name", "memory_mib", "id_"),
    [
        ("RTX 6000 Ada Gene...", 49140, "rtx-6000-ada"),
        ("GeForce RTX 4070 ...", 16376, "rtx-4070-ti-super"),
        ("GeForce RTX 4080 ...", 16376, "rtx-4080-super"),
        ("GeForce RTX 3080 ...", 12288, "rtx-3080-ti"),
        ("GeForce RTX 2080 ...", 11264, "rtx-2080-ti"),
        ("GeForce RTX 5070 ...", 16303, "rtx-5070-ti"),
        ("A100 80G...", 81920, "a100-pcie-80gb"),  # rated at the 300 W that are printed; SXM boards have 400
    ],
)
def test_a_name_that_is_cut_off_is_the_longer_name_with_that_memory(
    name: str, memory_mib: int, id_: str
) -> None:
    assert read_machine(smi(name, memory_mib), "own.txt").counts == ((1, id_),)


@pytest.mark.parametrize(
    ("name", "memory_mib"), [("GeForce RTX 4070 ...", 12282), ("RTX PRO 6000 Blac...", 97887)]
)
def test_a_name_that_is_cut_off_and_stands_for_several_boards_is_refused(name: str, memory_mib: int) -> None:
    with pytest.raises(InputFileError, match="can mean") as refused:
        read_machine(smi(name, memory_mib), "own.txt")
    assert refused.value.fix.startswith("name the board, e.g. --own 1x")


@pytest.mark.parametrize(
    ("dim", "factor", "divisor", "width"),
    [(4096, 1.3, 1024, 14336), (8192, 1.3, 4096, 28672), (4096, None, 256, 11008)],
)
def test_a_params_json_states_the_width_by_factor_and_divisor(
    dim: int, factor: float | None, divisor: int, width: int, tmp_path: Path
) -> None:
    """Widths of Llama 3 8B and 70B and of Llama 2 7B in their config.json."""
    fields = {
        "dim": dim,
        "n_layers": 2,
        "n_heads": 32,
        "n_kv_heads": 8,
        "vocab_size": 32000,
        "multiple_of": divisor,
    }
    path = tmp_path / "params.json"
    path.write_text(json.dumps(fields | ({"ffn_dim_multiplier": factor} if factor else {})))
    (part,) = {layers.feed_forward for layers in models.get(str(path)).record.layers}
    assert part is not None
    assert part.intermediate_size == width

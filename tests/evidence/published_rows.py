"""A published training run as a row of cells, and rows that remember what was read of them."""

from collections.abc import Iterator, Mapping

TRAINING_ROW = {
    "case_id": "x",
    "tier": "2",
    "group": "g",
    "source": "book",
    "source_ref": "p1",
    "date": "2025-06-01",
    "framework": "NeMo (Megatron)",
    "framework_version": "25.04",
    "model": "meta-llama/Meta-Llama-3.1-8B",
    "gpu": "h100-sxm",
    "n_gpus": "64",
    "gpus_per_node": "8",
    "precision": "bf16",
    "seq_len": "8192",
    "global_batch_seqs": "1024",
    "micro_batch": "1",
    "tp": "1",
    "pp": "1",
    "cp": "2",
    "dp": "32",
    "finetune": "pretrain",
    "recompute": "none",
    "sharding": "dist_opt",
    "notes": "n",
    "step_time_s": "12.33",
    "tokens_per_s_per_gpu": "10630",
}


class Watched(Mapping[str, str]):
    """A row that remembers which of its cells were read."""

    def __init__(self, cells: Mapping[str, str]) -> None:
        self.cells = cells
        self.read = set[str]()

    def __getitem__(self, name: str) -> str:
        self.read.add(name)
        return self.cells[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.cells)

    def __len__(self) -> int:
        return len(self.cells)

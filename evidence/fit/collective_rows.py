"""Measured collective times in one form: kernel tables of 2 to 8 ranks, and published sweeps of one node."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from advisor.catalog.units import GB, MICROSECOND_S, MILLISECOND_S
from advisor.evidence.collectives.case import PEAK_BYTES, CollectiveCase, parse_case
from advisor.evidence.fit.base import Options, published_rows
from advisor.evidence.fit.kernels import SYSTEMS
from advisor.evidence.prediction import UnsupportedCaseError

LINKS = {  # system id of the tables: fabric, bytes/s one direction per rank
    "a100_sxm": ("nvlink3", 300e9),
    **dict.fromkeys(("h100_sxm", "h200_sxm"), ("nvlink4", 450e9)),
    **dict.fromkeys(("b200_sxm", "b300_sxm", "gb200", "gb300"), ("nvlink5", 900e9)),
    "l40s": ("pcie4-x16", 31.508e9),
    "rtx_pro_6000_server": ("pcie5-x16", 63.015e9),
    "b60": ("pcie5-x8", 31.508e9),
}
OPERATIONS = {"all_reduce": "all_reduce", "all_gather": "all_gather"}
OPERATIONS |= {"reduce_scatter": "reduce_scatter", "alltoall": "all_to_all"}
ENGINES = {"vll": "vllm", "sgl": "sglang", "trt": "tensorrt-llm"}
SGLANG_NEW = "0.5.14"
"""First SGLang version whose small all-reduces take 2.7 µs instead of 4.5; it is fitted as a level of its own."""
HEALTHY_HOST = {"l40s": ("0.5.12",), "rtx_pro_6000_server": ("0.5.14", "0.24.0", "1.3.0rc20")}
"""Versions swept on a host whose PCIe works: the other L40S sweeps reach 1.4 GB/s over eight GPUs, below one PCIe 3 x2
link, and the other RTX PRO 6000 sweeps 15 GB/s between two, the rate of PCIe 3."""
LAUNCH_BOUND_BYTES = 2**20
"""Size below which runs launched from Python show the launch, not the fabric [bytes]."""
COLUMNS = ["system", "fabric", "rate", "operation", "num_gpus", "num_bytes", "time_s", "in_switch"]


def nccl_rows(options: Options) -> pd.DataFrame:
    """Return library sweeps; int8 sums and groups up to four cannot use the switch."""
    rows = pd.read_parquet(options.kernels("nccl"))
    rows = rows[(rows.latency > 0) & (rows.system != "l40s")]
    size = rows.message_size * rows.nccl_dtype.map({"half": 2, "int8": 1})
    rows = rows.assign(
        num_bytes=size, time_s=rows.latency * MILLISECOND_S, operation=rows.op_name.map(OPERATIONS)
    )
    return add_fabrics(rows.assign(in_switch=(rows.nccl_dtype == "half") & (rows.num_gpus > 4)))


def engine_rows(options: Options) -> pd.DataFrame:
    """Return all-reduce as engines call it, from captured graphs; eager rows contain Python time."""
    rows = pd.read_parquet(options.kernels("custom_allreduce"))
    backend = rows.ar_backend.fillna("trtllm")
    rows = rows[(rows.latency > 0) & ~backend.str.contains("eager")]
    for system, versions in HEALTHY_HOST.items():
        rows = rows[(rows.system != system) | rows.version.isin(versions)]
    engine = rows.kernel_source.str.lower().str[:3].map(ENGINES)
    engine = engine.where((engine != "sglang") | (rows.version != SGLANG_NEW), f"sglang-{SGLANG_NEW}")
    rows = rows.assign(num_bytes=rows.message_size * 2, time_s=rows.latency * MILLISECOND_S, engine=engine)
    return add_fabrics(rows.assign(operation="all_reduce", in_switch=rows.num_gpus > 4))


def library_rows(engines: pd.DataFrame) -> pd.DataFrame:
    """Return engine rows in which the engine leaves the work to the library: 1 GiB, and PCIe groups above two."""
    pcie = engines.fabric.str.startswith("pcie")
    library = (engines.num_bytes > 2**29) | (
        pcie & ((engines.num_gpus > 2) | (engines.fabric == "pcie4-x16"))
    )
    rack = engines.system.isin(("gb200", "gb300")) & (engines.num_gpus > 4)
    return engines[library & ~rack]


def published_sweeps(options: Options, left_out: str = "") -> pd.DataFrame:
    """Return published sweeps of single nodes, without the source `left_out`; the source takes the place of the
    system."""
    kept = [
        found
        for number, row in published_rows(options.published_table("collectives"))
        if row["source"] != left_out and (found := single_node(row, number)) is not None
    ]
    return pd.DataFrame(kept, columns=COLUMNS)


def single_node(row: Mapping[str, str], number: int) -> dict[str, object] | None:
    try:
        case = parse_case(row, number)
    except UnsupportedCaseError:
        return None
    place = case.topology
    size = case.num_bytes or float(PEAK_BYTES)
    usable = place.num_nodes == 1 and 1 < place.num_ranks <= 8 and "NOT A SINGLE" not in row["notes"]
    time_s = measured_s(row, case, size)
    launch_bound = size < LAUNCH_BOUND_BYTES and not place.intra_fabric.startswith("pcie")
    if not usable or time_s is None or launch_bound or row["collective"].startswith("ep_"):
        return None
    return {
        "system": f"{row['source']} {row['gpu']}",
        "fabric": place.fit_fabric,
        "rate": place.intra_bytes_per_s,
        "operation": case.collective,
        "num_gpus": place.num_ranks,
        "num_bytes": size,
        "time_s": time_s,
        "in_switch": place.in_network_reduction and place.num_ranks > 4,
    }


def own_rows() -> pd.DataFrame:
    """Return broadcast and send/receive, which no table has: 8 x H200, benchmarks/measure_collectives.py.

    A pair sends as a broadcast to one. The other operations of that file stay out of the fits, to test them.
    """
    rows = pd.read_csv(Path(__file__).with_name("measured_collectives.csv"))
    rows = rows[rows.operation.isin(("broadcast", "send_recv"))].rename(columns={"num_ranks": "num_gpus"})
    return rows.assign(
        operation="broadcast", system="h200_sxm", fabric="nvlink4", rate=LINKS["h200_sxm"][1], in_switch=False
    )


def measured_s(row: Mapping[str, str], case: CollectiveCase, size: float) -> float | None:
    if row["time_us"] and case.num_bytes is not None:
        return float(row["time_us"]) * MICROSECOND_S
    if not row["busbw_gbs"]:
        return None
    n = case.topology.num_ranks
    factor = (2.0 if case.collective == "all_reduce" else 1.0) * (n - 1) / n
    return size * factor / (float(row["busbw_gbs"]) * GB)


def add_fabrics(rows: pd.DataFrame) -> pd.DataFrame:
    fabrics, rates = ({name: link[place] for name, link in LINKS.items()} for place in (0, 1))
    return rows.assign(fabric=rows.system.map(fabrics), rate=rows.system.map(rates))


def medians(
    rows: pd.DataFrame, keys: tuple[str, ...] = ("system", "num_gpus", "num_bytes", "rate")
) -> pd.DataFrame:
    """Return the median over library versions and formats."""
    return rows.groupby(list(keys)).time_s.median().reset_index()


def accelerator_ids(rows: pd.DataFrame) -> list[str]:
    """Return the accelerators on which the rows were measured."""
    return sorted({SYSTEMS[s][0] if s in SYSTEMS else s.rsplit(" ", 1)[1] for s in rows.system.unique()})

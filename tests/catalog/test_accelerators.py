"""The accelerator records: complete, cited, consistent with physics, and found under the names people use."""

import csv
import re
import tomllib
from pathlib import Path

import pytest

from advisor.catalog import accelerators
from advisor.catalog.accelerators import read_accelerator
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.files import DATA_DIR
from advisor.catalog.schema import Accelerator
from advisor.catalog.schema.accelerator import ASSUMED_ACCELERATORS_PER_NODE


def _peak16(record: Accelerator) -> float | None:
    return record.peak_flop_per_s.get("bf16", record.peak_flop_per_s.get("fp16"))


ALL = accelerators.all_accelerators()
RANKED = [record for record in ALL if record.is_ranked]
FILES = sorted((DATA_DIR / "accelerators").glob("*.toml"))

# Dense 16-bit flop per clock of one SM, compute unit or core with FP32 accumulation.
FLOP_PER_CLOCK_PER_SM = {
    "kepler": 384,
    "maxwell": 256,
    "pascal": 256,  # of the fp32 units, which multiply 16-bit weights too
    "volta": 1024,
    "volta-vector": 256,  # matrix units switched off, as in the next three with this word
    "turing": 1024,
    "turing-vector": 256,
    "ampere-vector": 512,
    "ampere-geforce-vector": 256,
    "turing-geforce": 512,
    "ampere": 2048,
    "hopper": 4096,
    "blackwell": 8192,
    "blackwell-ultra": 8192,
    "blackwell-thor": 8192,
    "gcn4": 128,  # no matrix units, and 16 bits no faster than 32
    "gcn5": 256,  # no matrix units
    "cdna1": 1024,
    "cdna2": 1024,
    "rdna1": 256,
    "rdna2": 256,  # no matrix units
    "cdna3": 2048,
    "cdna4": 4096,
    "rdna3": 512,
    "rdna3.5": 512,
    "rdna4": 1024,
    "xe-hpg": 2048,
    "xe2": 2048,
    "wormhole": 1024,
    "blackhole": 2048,
}
# One generation, two tensor rates: GeForce cards, the A10G and the L40 run at half of the professional rate.
HALF_RATE = 512
FULL_RATE = 1024
ORIN_RATE = 2048
MIXED = ("ampere-geforce", "ada", "blackwell-geforce")
CUT_BELOW_SM_TIMES_CLOCK = ("h20",)
WITH_SM_AND_CLOCK = [
    record
    for record in ALL
    if record.num_sms and record.clock_hz and _peak16(record) and record.id not in CUT_BELOW_SM_TIMES_CLOCK
]
WITH_BUS = [path for path in FILES if "memory_gbit_per_s_per_pin" in path.read_text()]

# fmt: off
FAMILIES = {
    "v100-sxm2-16gb", "v100-sxm2-32gb", "v100-pcie-16gb", "t4", "a10", "a10g", "a30", "a40",
    "a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm-40gb", "a100-sxm-80gb", "rtx-3060-12gb", "rtx-3090",
    "rtx-4090", "rtx-5090", "rtx-5080", "rtx-a6000", "rtx-6000-ada", "rtx-pro-6000-ws",
    "rtx-pro-6000-server", "rtx-pro-5000", "l4", "l40", "l40s", "h100-sxm", "h100-pcie", "h100-nvl",
    "h800-sxm", "h20", "h200-sxm", "h200-nvl", "gh200-96gb", "gh200-144gb", "b100-sxm", "b200-sxm",
    "b300-sxm", "gb200", "gb300", "rubin", "gb10", "jetson-agx-orin-64gb", "jetson-thor-t5000", "mi210",
    "mi250", "mi250x", "mi300x", "mi325x", "mi350x", "mi355x", "rx-7900-xtx", "w7900", "r9700",
    "strix-halo-8060s", "gaudi2", "gaudi3", "arc-b580", "arc-pro-b60", "max-1550", "tpu-v3", "tpu-v4",
    "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7", "trainium1", "trainium2", "trainium3", "inferentia2", "wse3",
    "lpu-v1", "sn40l", "sohu", "n150", "n300", "p150a", "m1", "m1-max", "m2-ultra", "m3-max-40-core",
    "m3-ultra", "m4-max-40-core", "m5", "m5-max-40-core", "ascend-910b", "rtx-4070-ti", "rtx-3080-ti",
    "a800-sxm-80gb",
}
# fmt: on


def test_there_are_enough_and_every_family_is_there() -> None:
    ids = {record.id for record in ALL}
    assert len(ids) == len(ALL) >= 95
    assert ids >= FAMILIES
    assert len(RANKED) >= 95


def test_every_record_is_named_dated_and_cited() -> None:
    for record in ALL:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", record.id)
        assert record.sources
        for source in (*record.sources, *record.field_sources.values()):
            assert source.title
            assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", source.accessed)
            assert "not recorded" not in source.title + source.where + source.note


def test_what_is_ranked_has_every_number_that_ranking_needs() -> None:
    for record in RANKED:
        assert record.memory_bytes is not None
        assert record.bandwidth_bytes_per_s is not None
        assert record.tdp_w is not None
        assert "bf16" in record.peak_flop_per_s or "fp16" in record.peak_flop_per_s
        assert record.engines
        assert record.status == "released"


def test_what_is_not_ranked_says_why() -> None:
    unranked = [record for record in ALL if not record.is_ranked]
    assert {"rubin", "mi455x", "sohu", "wse3"} <= {record.id for record in unranked}
    assert all(len(record.unranked_reason) > 20 for record in unranked)


def test_published_peaks_follow_from_units_and_clock() -> None:
    """Dense 16-bit peak = SM x clock x flop per clock and SM, within 3 %."""
    for record in WITH_SM_AND_CLOCK:
        peak = _peak16(record)
        assert peak
        assert record.num_sms
        assert record.clock_hz
        mixed = record.architecture in MIXED
        rates = (HALF_RATE, FULL_RATE, ORIN_RATE) if mixed else (FLOP_PER_CLOCK_PER_SM[record.architecture],)
        ratios = [peak / (record.num_sms * record.clock_hz * rate) for rate in rates]
        assert min(abs(ratio - 1) for ratio in ratios) <= 0.03


def test_professional_and_geforce_cards_of_one_generation_have_their_own_tensor_rate() -> None:
    def flop_per_clock(id_: str) -> float:
        record = accelerators.by_id(id_)
        assert record.num_sms
        assert record.clock_hz
        return record.peak_flop_per_s["bf16"] / (record.num_sms * record.clock_hz)

    for id_ in ("rtx-3090", "rtx-4090", "rtx-5090", "a10g", "l40"):
        assert flop_per_clock(id_) == pytest.approx(HALF_RATE, rel=0.03)
    for id_ in ("a10", "rtx-a6000", "l40s", "rtx-6000-ada", "rtx-pro-6000-server", "gb10"):
        assert flop_per_clock(id_) == pytest.approx(FULL_RATE, rel=0.03)


def test_number_formats_are_in_their_usual_ratio() -> None:
    """No sparse figure slipped in: fp8 is at most 4.4 times bf16, fp4 4 to 9 times, and none is slower."""
    for record in [r for r in ALL if "bf16" in r.peak_flop_per_s]:
        peaks = record.peak_flop_per_s
        if "fp16" in peaks and record.id != "gaudi3":  # its FP16 rate is a quarter
            assert peaks["fp16"] == pytest.approx(peaks["bf16"], rel=0.01)
        if "fp8" in peaks:
            assert 1 <= peaks["fp8"] / peaks["bf16"] <= 4.4
        if "fp4" in peaks:
            assert 3.7 <= peaks["fp4"] / peaks["bf16"] <= 9


def test_derivations_cover_most_of_the_catalog() -> None:
    assert len(WITH_SM_AND_CLOCK) >= 75
    assert len(WITH_BUS) >= 70


def test_bandwidth_is_bus_times_rate() -> None:
    for path in WITH_BUS:
        written = tomllib.loads(path.read_text())
        from_bus = written["memory_bus_bits"] * written["memory_gbit_per_s_per_pin"] / 8
        assert written["bandwidth_gb_per_s"] == pytest.approx(from_bus, rel=0.03)


def test_usable_memory_is_a_little_below_what_is_on_the_box() -> None:
    for record in [r for r in ALL if r.memory_is_measured]:
        written = tomllib.loads((DATA_DIR / "accelerators" / f"{record.id}.toml").read_text())
        nominal = written["memory_gib"] * 2**30
        assert record.memory_bytes is not None
        assert 0.92 * nominal <= record.memory_bytes <= 1.012 * nominal


def test_known_traps_are_not_in_the_catalog() -> None:
    peak = {record.id: record.peak_flop_per_s for record in ALL}
    assert peak["rtx-4090"]["bf16"] == pytest.approx(165.2e12)
    assert peak["l40s"]["bf16"] == pytest.approx(362.05e12)
    assert peak["l40"]["bf16"] == pytest.approx(181.05e12)
    assert peak["rtx-5090"]["fp4"] == pytest.approx(1676e12)
    assert peak["b300-sxm"]["int8"] == pytest.approx(153.5e12)
    assert peak["gaudi3"]["bf16"] == pytest.approx(1677e12)
    assert not any(
        "fp8" in peak[id_] for id_ in peak if accelerators.by_id(id_).architecture.startswith("ampere")
    )
    assert accelerators.by_id("mi300x").bandwidth_bytes_per_s == pytest.approx(5.3e12)
    assert accelerators.by_id("b200-sxm").bandwidth_bytes_per_s == pytest.approx(7.672e12, rel=0.01)


def test_geforce_and_consumer_arc_have_no_peer_access_over_pcie() -> None:
    for record in ALL:
        has_none = "GeForce" in record.name or re.match(r"Intel Arc [AB]\d", record.name) is not None
        assert record.pcie_peer_to_peer is not has_none, record.id


@pytest.mark.parametrize(
    ("typed", "id_"),
    [
        ("h100", "h100-sxm"),
        ("H100 SXM", "h100-sxm"),
        ("H100_PCIe", "h100-pcie"),
        ("NVIDIA H100", "h100-sxm"),
        ("a100", "a100-sxm-80gb"),
        ("A100-80GB", "a100-sxm-80gb"),
        ("4090", "rtx-4090"),
        ("RTX4090", "rtx-4090"),
        ("GeForce RTX 5090", "rtx-5090"),
        ("mi300", "mi300x"),
        ("m4 max", "m4-max-40-core"),
        ("dgx spark", "gb10"),
        ("Strix Halo", "strix-halo-8060s"),
        ("ironwood", "tpu-v7"),
        ("tpu7x", "tpu-v7"),
        ("v5e", "tpu-v5e"),
        ("trn2", "trainium2"),
        ("rtx-pro-6000", "rtx-pro-6000-server"),
        ("910b", "ascend-910b"),
        ("Tesla P100", "p100-pcie-16gb"),
        ("Tesla P100-SXM2-16GB", "p100-sxm2-16gb"),
        ("NVIDIA H20-3e", "h20-141gb"),
        ("H20 96GB", "h20"),
        ("RTX 3050", "rtx-3050-8gb"),
        ("Ascend 910C", "ascend-910c"),
        ("Atlas 300I Duo", "ascend-310p"),
    ],
)
def test_the_names_people_type_are_understood_and_the_choice_is_told(typed: str, id_: str) -> None:
    record, note = accelerators.get(typed)
    assert record.id == id_
    assert id_ in note


@pytest.mark.parametrize("id_", [one.id for one in ALL if re.fullmatch(r".*-\d+gb", one.id)])
def test_a_family_of_several_memories_is_a_name_too(id_: str) -> None:
    family = id_.rpartition("-")[0]
    assert accelerators.get(family).record.id.startswith(family.split("-")[0])


def test_an_unknown_name_gives_near_misses_and_no_guess() -> None:
    with pytest.raises(UnknownNameError) as caught:
        accelerators.get("h100-smx")
    assert "h100-sxm" in caught.value.hint
    with pytest.raises(UnknownNameError):
        accelerators.get("rtx-2050-laptop")
    with pytest.raises(UnknownNameError) as caught:
        accelerators.by_id("h100")
    assert "h100-sxm" in caught.value.hint


def test_names_are_found_without_reading_the_records() -> None:
    assert accelerators.aliases() == {alias: record.id for record in ALL for alias in record.aliases}
    assert accelerators.all_ids() == tuple(record.id for record in ALL)


def test_no_alias_is_an_id_or_means_two_things() -> None:
    ids = {record.id for record in ALL}
    spelled = [alias for record in ALL for alias in record.aliases]
    assert len(spelled) == len(set(spelled))
    assert not ids & set(spelled)


def _write(path: Path, change: str, replacement: str) -> Path:
    text = (DATA_DIR / "accelerators" / "h100-sxm.toml").read_text()
    assert change in text
    path.write_text(text.replace(change, replacement, 1))
    return path


@pytest.mark.parametrize(
    ("change", "replacement", "told"),
    [
        ("bandwidth_gb_per_s = 3350", "bandwidth_gb_per_s = -1", "bandwidth_gb_per_s"),
        ("bandwidth_gb_per_s = 3350", "bandwidth_gb_per_s = 2000", "bus x rate"),
        ("tdp_w = 700\n", "", "tdp_w"),
        ("memory_gib = 80", 'memory_gib = "big"', "memory_gib"),
        ("num_sms", "sms", "sms"),
        ('vendor = "nvidia"', 'vendor = "acme"', "vendor"),
        ("tdp_w = 700", "tdp_w = ", "TOML"),
        ('id = "h100-sxm"', 'id = "h100-other"', "file name"),
    ],
)
def test_a_wrong_file_is_told_by_file_and_field(
    tmp_path: Path, change: str, replacement: str, told: str
) -> None:
    path = _write(tmp_path / "h100-sxm.toml", change, replacement)
    with pytest.raises(InputFileError) as caught:
        read_accelerator(path)
    message = f"{caught.value.what} {caught.value.why} {caught.value.fix}"
    assert "h100-sxm.toml" in message
    assert told in message


def test_every_accelerator_that_was_measured_is_in_the_catalog(shared_data: Path) -> None:
    ids = {record.id for record in ALL}
    for name in ("serving", "training", "collectives", "probes"):
        with (shared_data / "truth" / f"{name}.csv").open(newline="") as file:
            measured = {row["gpu"] for row in csv.DictReader(file)}
        assert measured - ids <= {"", "cpu"}, name


def test_a_number_of_accelerators_per_node_has_a_source_of_its_own() -> None:
    for accelerator in ALL:
        stated = accelerator.accelerators_per_node
        assert (stated is None) == ("accelerators_per_node" not in accelerator.field_sources), accelerator.id
        assert accelerator.node_size == (stated or ASSUMED_ACCELERATORS_PER_NODE)
        if accelerator.form_factor.startswith(("SXM", "OAM")) and stated:
            assert accelerator.scale_up_domain == stated, accelerator.id  # one baseboard, one fabric


def test_racks_and_superchips_have_the_nodes_that_are_sold() -> None:
    nodes = {
        id_: (accelerators.by_id(id_).node_size, accelerators.by_id(id_).scale_up_domain)
        for id_ in ("gb200", "trainium2", "tpu-v4")
    }
    assert nodes == {"gb200": (4, 72), "trainium2": (16, 64), "tpu-v4": (4, 4096)}
    assert accelerators.by_id("gh200-96gb").node_size == accelerators.by_id("m3-ultra").node_size == 1
    assert accelerators.by_id("l40s").fast_group_size == accelerators.by_id("l40s").node_size == 8
    assert accelerators.by_id("rtx-3090").fast_group_size == 8  # beyond the bridge, over PCIe
    assert accelerators.by_id("gb200").fast_group_size == 72


def test_no_module_writes_down_how_many_accelerators_a_node_has() -> None:
    name = r"^_?(?=\w*(?:NODE(?!S)|MACHINE|SERVER|TRAY))[A-Z0-9_]+"
    constant = re.compile(name + r"\s*(?::[^=]*)?=\s*(?:4|8|16|72)\b", re.MULTILINE)
    root = Path(__file__).resolve().parents[2]
    found = {
        f"{file.relative_to(root)}: {match.group()}"
        for room in ("advisor", "catalog", "simulator", "evidence", "probes")
        for file in (root / room).rglob("*.py")
        for match in constant.finditer(file.read_text(encoding="utf-8"))
    }
    assert found == {"catalog/schema/accelerator.py: ASSUMED_ACCELERATORS_PER_NODE: Final = 8"}

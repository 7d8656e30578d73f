"""Choice of accelerators of a measured machine for a group, and what that does to predictions and recommendations."""

import itertools
import json
from pathlib import Path

import pytest

from advisor.__main__ import main
from advisor.catalog import accelerators
from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Calibration
from advisor.probes.calibrate import calibration_of
from advisor.probes.document import read_probe
from advisor.simulator.calibrated_device import calibrated_accelerator
from advisor.simulator.collectives import all_reduce_s, topology_of
from advisor.simulator.collectives.measured_pairs import placed_groups

MIB = 2**20
BRIDGED = {"0-1": 250e9, "2-3": 251e9, **{f"{i}-{j}": 21e9 for i in (0, 1) for j in (2, 3)}}


def rates(slow: set[int], rate: float = 80e9, number: int = 8) -> dict[str, float]:
    """Copies among eight H100s; those with a slow GPU at another rate."""
    return {f"{i}-{j}": rate if slow & {i, j} else 387e9 for i, j in itertools.combinations(range(number), 2)}


def calibration(pairs: dict[str, float], gpu: str = "h100-sxm", number: int = 8) -> Calibration:
    return Calibration(accelerator=gpu, num_accelerators=number, pair_bytes_per_s=pairs)


def sum_s(gpu: str, ranks: int, found: Calibration | None = None) -> float:
    record = calibrated_accelerator(accelerators.by_id(gpu), found)
    return all_reduce_s(64 * MIB, topology_of(record, ranks))


def test_a_group_avoids_the_slow_links_while_it_can() -> None:
    one_slow = calibration(rates({3}))
    groups = placed_groups(accelerators.by_id("h100-sxm"), one_slow)
    assert groups[4].members == (0, 1, 2, 4)
    assert groups[7].members == (0, 1, 2, 4, 5, 6, 7)
    for ranks in (2, 4, 7):
        assert sum_s("h100-sxm", ranks, one_slow) == sum_s("h100-sxm", ranks)
    assert groups[8].fraction == pytest.approx(80 / 387)
    assert sum_s("h100-sxm", 8, one_slow) > 3 * sum_s("h100-sxm", 8)


def test_links_that_are_alike_change_nothing() -> None:
    for name in ("h200-sxm-x4", "h200-sxm-x8"):
        found = calibration_of(read_probe(Path(name)))
        record = calibrated_accelerator(accelerators.by_id("h200-sxm"), found)
        assert record.group_fraction == {}
        groups = placed_groups(accelerators.by_id("h200-sxm"), found)
        assert {group.fraction for group in groups.values()} == ({1.0} if groups else set())


def test_bridged_cards_keep_pairs_fast_and_larger_groups_on_pcie() -> None:
    found = calibration(BRIDGED, "rtx-a6000", 4)
    groups = placed_groups(accelerators.by_id("rtx-a6000"), found)
    assert groups[2].members == (2, 3)
    assert (groups[2].fraction, groups[4].fraction) == (1.0, 1.0)
    across_sockets = calibration(BRIDGED | {"0-2": 10e9}, "rtx-a6000", 4)
    assert sum_s("rtx-a6000", 4, across_sockets) > 1.5 * sum_s("rtx-a6000", 4, found)
    assert sum_s("rtx-a6000", 2, across_sockets) == sum_s("rtx-a6000", 2)


def test_cards_without_their_bridge_stand_on_pcie() -> None:
    found = calibration({"0-1": 21e9}, "rtx-a6000", 2)
    assert calibrated_accelerator(accelerators.by_id("rtx-a6000"), found).scale_up is None
    assert sum_s("rtx-a6000", 2, found) > 1.5 * sum_s("rtx-a6000", 2)


def test_the_rate_of_all_together_is_not_counted_twice() -> None:
    """A sum over all eight that is slow for one slow GPU says nothing against the links of the others."""
    slow = Calibration(
        accelerator="h100-sxm",
        num_accelerators=8,
        pair_bytes_per_s=rates({3}),
        collective_bus_bytes_per_s={"all_gather": 70e9},
    )
    record = calibrated_accelerator(accelerators.by_id("h100-sxm"), slow)
    assert record.scale_up is not None
    assert record.scale_up.bytes_per_s > 0.7 * 450e9
    assert topology_of(record, 8).intra_bytes_per_s < 0.35 * 450e9


@pytest.mark.parametrize("pairs", [{"0-x": 1e9}, {"01": 1e9}, {"0-1": -1.0}, {"0-1-2": 1e9}])
def test_pairs_that_are_none_are_refused(pairs: dict[str, float]) -> None:
    with pytest.raises(AdvisorError, match="no copy between two accelerators"):
        placed_groups(accelerators.by_id("h100-sxm"), calibration(pairs))


def test_some_pairs_are_not_enough_to_place_a_group() -> None:
    assert placed_groups(accelerators.by_id("h100-sxm"), calibration({"0-1": 1e9, "1-2": 1e9})) == {}
    assert placed_groups(accelerators.by_id("h100-sxm"), calibration({})) == {}


@pytest.mark.parametrize(
    "words",
    [
        "simulate serve --model 70b --gpu h100-sxm --tp 8 --rate 1 --requests 50",
        "recommend --model 70b --gpu h100-sxm --provider lambda --rate 2 --fast",
        "simulate collective --gpu h100-sxm --gpus 8 --bytes 64MiB",
    ],
)
def test_answers_use_it_and_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(calibration(rates({3})).model_dump(mode="json")))
    assert main([*words.split(), "--json", "--as-of", "2026-11-20"]) == 0
    before = json.loads(capsys.readouterr().out)
    assert main([*words.split(), "--json", "--as-of", "2026-11-20", "--calibration", str(path)]) == 0
    after = json.loads(capsys.readouterr().out)
    kept = set(before) - {"inputs", "warnings"}
    assert {name for name in kept if before[name] != after[name]} or words.startswith("recommend")
    assert [group["members"] for group in after["calibration_groups"]][2] == [0, 1, 2, 4]

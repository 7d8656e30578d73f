"""`advisor simulate train` over several clusters: sites far apart, and two unlike ones under one job."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[[str], Any]


def test_sites_far_apart_wait_for_the_network_between_them(cli: Cli) -> None:
    one = "simulate train --model 8b --gpus 64 --cp 2 --global-batch 64 --tokens 1T --json"
    alone = json.loads(cli(f"advisor {one}").out)
    assert alone["sites"] is None
    found = {
        name: json.loads(cli(f"advisor {one} --sites 4 --between-gbps 100 {more}").out)
        for name, more in (("each", ""), ("tenth", "--inner-steps 10"), ("hundredth", "--inner-steps 100"))
    }
    step_s = alone["step_time_s"]["value"]
    for name, every in (("tenth", 10), ("hundredth", 100)):
        sites = found[name]["sites"]
        assert sites["exchange_s"] == pytest.approx(1.5 * 8.03e9 * 4 / 12.5e9 + 6 * 0.03, rel=0.01)
        assert sites["step_time_s"] == pytest.approx(step_s + sites["exchange_s"] / every)
        assert step_s <= sites["overlapped_step_time_s"] <= sites["step_time_s"]
        days = found[name]["days"]["value"]
        assert days == pytest.approx(alone["days"]["value"] * sites["step_time_s"] / step_s / 4)
    each = found["each"]["sites"]
    assert step_s < each["step_time_s"] < step_s + each["exchange_s"], "the last backward pass hides a part"
    assert each["step_time_s"] > found["tenth"]["sites"]["step_time_s"]
    assert found["each"]["step_time_s"] == alone["step_time_s"], "the headline is a site's"


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ("--sites 2", "needs --between-gbps"),
        ("--inner-steps 10", "needs --sites"),
        ("--between-gbps 10", "needs --sites"),
        ("--sites 1 --between-gbps 10", "'--sites'"),
        ("--sites 2 --between-gbps 0", "'--between-gbps'"),
    ],
)
def test_sites_that_lack_something_are_refused(cli: Cli, options: str, part: str) -> None:
    found = cli(f"advisor simulate train --model 8b {options}")
    assert found.code == 2
    assert part in found.err


def test_two_unlike_clusters_under_one_job(cli: Cli) -> None:
    two = "simulate train --model 70b --gpus 128 --tp 8 --pp 4 --global-batch 256 --beside 128xa100 --between-gbps 400"
    found = {
        across: json.loads(cli(f"advisor {two} --across {across} --tokens 1T --json").out)
        for across in ("dp", "pp")
    }
    for across, document in found.items():
        islands = document["islands"]
        assert islands["across"] == across
        assert islands["between_bytes_per_s"] == 50e9
        assert [part["num_accelerators"] for part in islands["parts"]] == [128, 128]
        assert sum(document["breakdown"].values()) == pytest.approx(document["step_time_s"]["value"])
        rate = document["tokens_per_s_per_accelerator"]["value"]
        assert document["days"]["value"] == pytest.approx(1e12 / (256 * rate) / 86400)
        assert 0.0 < document["mfu_fraction"]["value"] < 0.6
        assert set(document["launch_flags"]) == {"megatron-lm", "nemo"}, (
            "torchtitan has no options for either"
        )
    layers = "|".join(f"t*{size}" for size in found["pp"]["islands"]["stage_layers"])
    assert f'--pipeline-model-parallel-layout "E{layers}L"' in found["pp"]["launch_flags"]["megatron-lm"]
    assert "--use-tp-pp-dp-mapping" in found["dp"]["launch_flags"]["megatron-lm"]
    assert found["dp"]["islands"]["uneven"]["step_time_s"] < found["dp"]["step_time_s"]["value"]


@pytest.mark.parametrize(
    "lines",
    ["sites = 1\nbetween_gbps = 10", "sites = 2\nbetween_gbps = -1.0", "sites = 2\nbetween_gbps = nan"],
)
def test_a_plan_file_with_sites_is_checked(cli: Cli, tmp_path: Path, lines: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(f"model = '8b'\n{lines}\n", encoding="utf-8")
    found = cli(f"advisor simulate train {path}")
    assert found.code == 2
    assert "Gb/s between them" in found.err


def test_an_unknown_second_cluster_gets_near_misses(cli: Cli) -> None:
    found = cli("advisor simulate train --model 8b --gpus 64 --beside 64xa101 --between-gbps 100")
    assert found.code == 2
    assert "unknown accelerator 'a101'" in found.err
    assert "a100-sxm-80gb" in found.err

"""Links, bits of formats, work per watt, and two records compared: numbers by hand, and refusals."""

from collections.abc import Callable
from typing import Any

import pytest

from advisor.catalog import accelerators
from advisor.catalog.interconnects import all_interconnects

Cli = Callable[[str], Any]


def answer(cli: Cli, command: str) -> dict[str, Any]:
    return cli(f"advisor {command} --json").document()


@pytest.mark.parametrize(
    ("zero_bits", "width"), [("0", 4.125), ("4", 4.15625), ("16", 4.25)], ids=["none", "four", "sixteen"]
)
def test_scales_and_zero_points_are_shared_by_their_group(cli: Cli, zero_bits: str, width: float) -> None:
    found = answer(cli, f"catalog bits --bits 4 --group 128 --zero-bits {zero_bits}")
    assert found["grouped"] == [{"zero_point_bits": float(zero_bits), "bits_per_element": width}]


def test_one_scale_per_element_costs_its_whole_width(cli: Cli) -> None:
    (alone,) = answer(cli, "catalog bits --bits 4 --group 1 --zero-bits 0")["grouped"]
    assert alone["bits_per_element"] == 20.0


def test_every_link_is_listed_once(cli: Cli) -> None:
    links = answer(cli, "catalog interconnects")["interconnects"]
    assert [link["id"] for link in links] == [link.id for link in all_interconnects()]
    by_id = {link["id"]: link["bytes_per_s"] for link in links}
    generations = [by_id[f"nvlink{n}"] for n in range(1, 7)]
    assert generations == sorted(generations)
    assert (by_id["nvlink3"], by_id["nvlink4"], by_id["nvlink5"]) == (300e9, 450e9, 900e9)


def test_a_name_of_a_network_is_a_rate(cli: Cli) -> None:
    run = cli("advisor catalog interconnects --network 'NDR 8x400' --kind infiniband")
    assert "400 GB/s one way for a node of 8 accelerators, 50 GB/s for each" in run.out
    for name in ("carrier-pigeon", "0GB", "InfiniBand 0x400Gb", "RoCE 8x0Gb/s"):
        assert cli(f"advisor catalog interconnects --network '{name}'").code == 2
    assert cli("advisor catalog interconnects --kind nvlnk").code == 2


def test_work_per_watt_is_peak_over_power(cli: Cli) -> None:
    rows = answer(cli, "catalog efficiency")["accelerators"]
    by_id = {row["accelerator"]: row for row in rows}
    assert by_id["h100-sxm"]["bf16_tflop_per_s_per_w"] == pytest.approx(989.4 / 700)
    assert by_id["a100-sxm-80gb"]["bf16_tflop_per_s_per_w"] == pytest.approx(312 / 400)
    order = [row["bf16_tflop_per_s_per_w"] or -1 for row in rows]
    assert order == sorted(order, reverse=True)


def test_tokens_per_joule_are_a_rate_over_a_draw_within_the_board_s_limit(cli: Cli) -> None:
    found = answer(
        cli, "catalog efficiency --model llama-3.1-8b --gpu h100-sxm,l40s,rtx-4090 --region us,france"
    )
    assert {row["accelerator"] for row in found["accelerators"]} == {"h100-sxm", "l40s", "rtx-4090"}
    for row in found["accelerators"]:
        record = accelerators.by_id(row["accelerator"])
        assert row["power_w"]["value"] <= (record.tdp_w or 0)
        energy = row["tokens_per_joule"]["value"]
        assert energy == pytest.approx(row["tokens_per_s"] / row["power_w"]["value"])


def test_a_model_that_fits_no_card_is_said_so(cli: Cli) -> None:
    run = cli("advisor catalog efficiency --model llama-3.1-70b --gpu l4")
    assert run.code == 3
    assert "holds the model alone" in run.err


def test_two_accelerators_are_compared_figure_by_figure(cli: Cli) -> None:
    found = answer(cli, "compare h100-sxm a100-sxm-80gb")
    figures = {row["figure"]: row for row in found["figures"]}
    assert figures["memory bandwidth, GB/s"]["ratio"] == pytest.approx(3350 / 2039)
    assert figures["ridge bf16, flop/byte"]["first"] == pytest.approx(295, abs=1)
    assert figures["fp8, TFLOP/s"]["second"] is None
    swapped = {row["figure"]: row for row in answer(cli, "compare a100 h100")["figures"]}
    for name, row in figures.items():
        assert swapped[name]["first"] == row["second"]


def test_a_name_of_no_accelerator_gets_near_misses(cli: Cli) -> None:
    run = cli("advisor compare h100-sxm a100x")
    assert run.code == 2
    assert "a100-sxm-80gb" in run.err


def test_a_format_that_does_not_exist_is_refused(cli: Callable[[str], Any]) -> None:
    run = cli("advisor catalog efficiency --model 8b --gpu h100-sxm --precision chat")
    assert run.code == 2
    assert "unknown precision 'chat'" in run.err

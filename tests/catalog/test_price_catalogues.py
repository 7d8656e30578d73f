"""Price lists of SkyPilot and gpuhunt as price files, and the price of one card on the row of several."""

import datetime
import json
from pathlib import Path
from typing import Final

import pytest

from advisor.catalog import prices
from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.price_lines import priced_lines
from advisor.catalog.formats.price_rows import catalogue_of, catalogue_prices, unread_columns

DAY: Final = datetime.date(2026, 11, 20)
SKYPILOT: Final = (
    "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,Region,Price,SpotPrice\n"
    "1x_RTXA6000_SECURE,4.0,48.0,RTXA6000,1.0,US,0.79,0.49\n"
    "2x_RTXA6000_SECURE,8.0,96.0,RTXA6000,2.0,US,1.58,\n"
    "4x_H100,8.0,96.0,H100,4.0,US,12,\n"
    "cpu,8.0,96.0,,,US,1.58,\n"
    "1x_strange,8.0,96.0,FutureChip,1,US,1.58,\n"
)
GPUHUNT: Final = (
    "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size\n"
    "rtx59-7c.1,us-east,0.65,7,50,1,RTX5090,32,False,\n"
    "rtx59-7c.1,us-east,0.40,7,50,1,RTX5090,32,True,\n"
    "wrong-memory,us-east,0.40,7,50,1,RTX5090,24,False,\n"
)


def file_of(folder: Path, text: str) -> Path:
    path = folder / "list.csv"
    path.write_text(text)
    return path


def test_rows_of_skypilot_are_prices_of_the_provider_that_is_named(tmp_path: Path) -> None:
    found = prices.read_prices(file_of(tmp_path, SKYPILOT), DAY, ["acme"])
    rows = {(p.sku, p.term): (p.accelerator, p.num_accelerators, p.usd_per_hour) for p in found}
    assert rows == {
        ("1x_RTXA6000_SECURE", "on_demand"): ("rtx-a6000", 1, 0.79),
        ("1x_RTXA6000_SECURE", "spot"): ("rtx-a6000", 1, 0.49),
        ("2x_RTXA6000_SECURE", "on_demand"): ("rtx-a6000", 2, 1.58),
        ("4x_H100", "on_demand"): ("h100-sxm", 4, 12.0),
    }
    assert {p.provider for p in found} == {"acme"}
    assert not any(p.is_dated for p in found)  # such lists bear no date


def test_what_was_taken_for_a_name_and_what_was_left_out_is_said(tmp_path: Path) -> None:
    notes = " ".join(prices.catalogue_notes(file_of(tmp_path, SKYPILOT), DAY, ["acme"]))
    assert "H100 is taken as h100-sxm" in notes
    assert "FutureChip" in notes
    assert "RTXA6000" not in notes


@pytest.mark.parametrize(
    ("sku", "name", "board"),
    [
        ("gpu_1x_h100_pcie", "H100", "h100-pcie"),
        ("gpu_8x_h100_sxm5", "H100", "h100-sxm"),
        ("1x_H100-NVL_SECURE", "H100", "h100-nvl"),
        ("box-a100-pcie", "A100-80GB", "a100-pcie-80gb"),
        ("Standard_NC40ads_H100_v5", "H100", "h100-nvl"),
    ],
)
def test_the_name_of_a_machine_decides_about_the_board_of_a_name(
    tmp_path: Path, sku: str, name: str, board: str
) -> None:
    head = "InstanceType,AcceleratorName,AcceleratorCount,Price,Region\n"
    path = file_of(tmp_path, f"{head}{sku},{name},1,2.5,us\n")
    assert [one.accelerator for one in prices.read_prices(path, DAY, ["acme"])] == [board]
    assert "is taken as" not in " ".join(prices.catalogue_notes(path, DAY, ["acme"]))


@pytest.mark.parametrize("region", [{"name": "us-west-1"}, "us-west-1"])
def test_nested_names_of_several_words_say_themselves(tmp_path: Path, region: object) -> None:
    """The board is in `gpu_description`, not in the machine's `description`; the region in a list of its own."""
    machine = {
        "name": "gpu_8x_a100",
        "description": "8x NVIDIA A100",
        "gpu_description": "NVIDIA A100 40 GB",
        "price_cents_per_hour": 1592,
        "specs": {"gpus": 8},
    }
    rows = {"data": {"one": {"instance_type": machine, "regions_with_capacity_available": [region]}}}
    (price,) = prices.read_prices(file_of(tmp_path, json.dumps(rows)), DAY, ["acme"])
    assert (price.accelerator, price.num_accelerators) == ("a100-sxm-40gb", 8)
    assert (price.region, price.usd_per_hour) == ("us-west-1", 15.92)


def test_a_stated_memory_decides_about_a_name(tmp_path: Path) -> None:
    found = prices.read_prices(file_of(tmp_path, GPUHUNT), DAY, ["acme"])
    assert {(p.term, p.usd_per_hour) for p in found} == {("on_demand", 0.65), ("spot", 0.40)}


@pytest.mark.parametrize(
    ("name", "info", "board"),
    [
        ("A100", "", "a100-sxm-40gb"),
        ("A100-80GB", "", "a100-sxm-80gb"),
        ("A100", "\"{'Gpus': [{'MemoryInfo': {'SizeInMiB': 81920}}]}\"", "a100-sxm-80gb"),
        ("V100", "", "v100-sxm2-16gb"),
        ("V100-32GB", "", "v100-sxm2-32gb"),
    ],
)
def test_a_name_of_skypilot_is_the_board_of_its_memory(
    tmp_path: Path, name: str, info: str, board: str
) -> None:
    head = "InstanceType,AcceleratorName,AcceleratorCount,Price,Region,GpuInfo\n"
    path = file_of(tmp_path, f"{head}one,{name},8,20.0,US,{info}\n")
    assert [price.accelerator for price in prices.read_prices(path, DAY, ["acme"])] == [board]


@pytest.mark.parametrize("providers", [None, [], ["acme", "other"]])
@pytest.mark.parametrize("text", [SKYPILOT, GPUHUNT])
def test_a_list_that_names_no_provider_is_not_given_one(
    tmp_path: Path, text: str, providers: list[str] | None
) -> None:
    with pytest.raises(InputFileError) as raised:
        prices.read_prices(file_of(tmp_path, text), DAY, providers)
    assert "--provider" in raised.value.fix


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (SKYPILOT.replace("2.0,US", "two,US"), "row 3"),
        (SKYPILOT.replace(",12,", ",1200000,"), "row 4"),
        (GPUHUNT.splitlines()[0] + "\n", "no price of an accelerator"),
        (SKYPILOT[:150], "cells"),
    ],
)
def test_a_bad_row_is_refused_with_its_number(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(InputFileError) as raised:
        prices.read_prices(file_of(tmp_path, text), DAY, ["acme"])
    assert what in raised.value.what


@pytest.mark.parametrize("cell", ["Enquire for pricing", "Contact sales", "0.00", "Sold out"])
def test_a_row_whose_price_is_asked_for_is_left_out_and_named(tmp_path: Path, cell: str) -> None:
    file = file_of(tmp_path, f"GPU,GPUs,price per hour\nH100 SXM,8,{cell}\nL40S,1,0.99\n")
    found = prices.read_prices(file, DAY, ["acme"])
    assert [price.accelerator for price in found] == ["l40s"]
    assert f"H100 SXM ({cell})" in " ".join(prices.catalogue_notes(file, DAY, ["acme"]))


def test_an_accelerator_without_its_machine_is_no_offer(tmp_path: Path) -> None:
    """Google Cloud prices a T4 that is attached to a machine, and the machine apart."""
    header = SKYPILOT.splitlines()[0]
    columns = header.split(",")
    cells = {"AcceleratorName": "T4", "AcceleratorCount": "1.0", "Region": "us-central1", "Price": "0.35"}
    rows = [cells, cells | {"InstanceType": "g2", "AcceleratorName": "L4", "Price": "0.99"}]
    lines = [",".join(row.get(name, "") for name in columns) for row in rows]
    file = file_of(tmp_path, "\n".join((header, *lines, "")))
    assert [price.accelerator for price in prices.read_prices(file, DAY, ["gcp"])] == ["l4"]
    assert "without the machine they are attached to are left out: T4" in " ".join(
        prices.catalogue_notes(file, DAY, ["gcp"])
    )


def test_lines_of_prices_are_read_though_each_looks_like_a_name_and_its_value(tmp_path: Path) -> None:
    text = "B200: from $3.79 per GPU-hour (min 8 GPUs)\nA100: $1.19/hr\nMI300X $2.99/hr\n"
    found = prices.read_prices(file_of(tmp_path, text), DAY, ["acme"])
    assert {price.accelerator: price.usd_per_hour for price in found}["a100-sxm-80gb"] == 1.19
    assert len(found) == 3


OWN: Final = "provider,accelerator,num_accelerators,term,usd_per_hour,observed_on\n"


@pytest.mark.parametrize("usd", ["0.79", "0.5"])
def test_the_price_of_one_on_a_row_of_several_is_refused(tmp_path: Path, usd: str) -> None:
    rows = f"acme,rtx-a6000,1,on_demand,0.79,2026-11-20\nacme,rtx-a6000,2,on_demand,{usd},2026-11-20\n"
    with pytest.raises(InputFileError) as raised:
        prices.read_prices(file_of(tmp_path, OWN + rows), DAY)
    assert "$1.58 for the 2" in raised.value.fix


def test_prices_that_grow_are_accepted(tmp_path: Path) -> None:
    rows = "acme,rtx-a6000,1,on_demand,0.79,2026-11-20\nacme,rtx-a6000,2,on_demand,1.4,2026-11-20\n"
    assert len(prices.read_prices(file_of(tmp_path, OWN + rows), DAY)) == 2


def test_a_price_in_cents_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text('[{"provider": "acme", "gpu_type": "A6000", "num_gpus": 2, "hourly_price": 100}]')
    with pytest.raises(InputFileError) as raised:
        prices.prices_as_of(DAY, user_file=path)
    assert "cents" in raised.value.why


def test_a_number_of_accelerators_behind_the_name_of_an_instance_is_read() -> None:
    text = "p5e.48xlarge 8x H200  $63.296 per hour\nND96isr 8x H200 $84.80 / hour\n"
    found = list(priced_lines(text))
    assert [(one.num_accelerators, one.gpu, one.usd_per_hour) for one in found] == [
        ("8", "h200-sxm", "63.296"),
        ("8", "h200-sxm", "84.8"),
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "RTX 4090 24GB .......... $0.34/hr (community) / $0.69/hr (secure)",
            {("rtx-4090", 1, "community", 0.34), ("rtx-4090", 1, "on_demand", 0.69)},
        ),
        ("2×A100 80GB NVLink – $2.38 per hour, billed per second", {("a100-sxm-80gb", 2, "on_demand", 2.38)}),
        (
            "H200 SXM, 8-GPU node: $28.00/hr | 6-month reserve $22.40/hr",
            {("h200-sxm", 8, "on_demand", 28.0), ("h200-sxm", 8, "reserved_unspecified", 22.4)},
        ),
        ("L40S 48GB on-demand $0.79/hr", {("l40s", 1, "on_demand", 0.79)}),
    ],
)
def test_lines_of_pages_state_machine_term_and_price(
    tmp_path: Path, line: str, expected: set[tuple[str, int, str, float]]
) -> None:
    found = prices.read_prices(file_of(tmp_path, f"{line}\n"), DAY, ["acme"])
    assert {(one.accelerator, one.num_accelerators, one.term, one.usd_per_hour) for one in found} == expected


@pytest.mark.parametrize(
    ("words", "term", "smallest"),
    [
        ("$2.10/h (min 8 GPUs)", "on_demand", 8),
        ("from $2.10 per hour", "on_demand", None),
        ("$2.10/hr, 1-year commit", "reserved_1y", None),
        ("$2.10 spot", "spot", None),
        ("starting at $2.10/hr - 8 GPUs minimum, 3 months", "reserved_3m", 8),
        ("$2.10–$3.50", "on_demand", None),
        ("On-demand $2.10/hr", "on_demand", None),
        ("$2.10/hr [16+ GPUs] reserved", "reserved_unspecified", 16),
    ],
)
@pytest.mark.parametrize("container", ['gpu,price\nH100 SXM,"{}"\n', "H100 SXM: {}\n"])
def test_conditions_beside_a_price_hold_in_any_container(
    tmp_path: Path, words: str, term: str, smallest: int | None, container: str
) -> None:
    """A cell and a line state the same term, the same smallest order, and whether it is the lowest price."""
    path = file_of(tmp_path, container.format(words))
    (row,) = prices.read_prices(path, DAY, ["acme"])
    assert (row.usd_per_hour, row.term, row.min_quantity) == (2.10, term, smallest)
    notes = prices.catalogue_notes(path, DAY, ["acme"])
    assert any("only the lowest" in note for note in notes) == bool(
        {"from", "starting", "$2.10–$3.50"} & set(words.split())
    )


TIERS: Final = (
    "| GPU | Hyperscaler | Specialty | Spread |\n|---|---|---|---|\n"
    "| H100 SXM5 | $3.50–$5.00 | $2.50–$3.50 | 2.5× |\n| A100 80GB | $1.50 | $1.10 | 3.75× |\n"
)


def test_columns_of_sums_are_their_titles_prices(tmp_path: Path) -> None:
    """Titles are sellers, or tiers of the one seller that is named; what is no sum of dollars is no price."""
    sellers = file_of(
        tmp_path, "GPU,RunPod,Vast.ai,Storage\nH100 SXM,$2.69,$1.87,$0.10\nA100 80GB,n/a,$0.9,$0.10\n"
    )
    found = {(p.provider, p.accelerator): p.usd_per_hour for p in prices.read_prices(sellers, DAY, None)}
    assert found == {
        ("runpod", "h100-sxm"): 2.69,
        ("vast", "h100-sxm"): 1.87,
        ("vast", "a100-sxm-80gb"): 0.9,
    }
    tiers = prices.read_prices(file_of(tmp_path, TIERS), DAY, ["acme"])
    assert {(p.provider, p.sku, p.usd_per_hour) for p in tiers if p.accelerator == "h100-sxm"} == {
        ("acme", "hyperscaler", 3.5),
        ("acme", "specialty", 2.5),
    }


@pytest.mark.parametrize(
    ("hours", "gigabytes"), [("312.5 hrs", "500 GB"), ("720 hours", "12 TB"), ("312.5", "")]
)
@pytest.mark.parametrize("price", ["$0.07/GB", "$10 per TB"])
def test_an_invoice_counts_units_and_its_rows_of_other_goods_are_left_out_by_name(
    tmp_path: Path, hours: str, gigabytes: str, price: str
) -> None:
    text = (
        "Description,Quantity,Unit price,Amount\n"
        f'2x NVIDIA A100 80GB PCIe,{hours},$3.28/hr,"$1,025.00"\n'
        f"Network volume,{gigabytes},{price},$35.00\n"
    )
    found = prices.read_prices(file_of(tmp_path, text), DAY, ["acme"])
    assert [(one.accelerator, one.num_accelerators, one.usd_per_hour) for one in found] == [
        ("a100-pcie-80gb", 2, 3.28)
    ]
    rows = list(catalogue_prices(file_of(tmp_path, text), "sheet"))
    assert [one.described for one in rows if not one.gpu] == ["Network volume"]


@pytest.mark.parametrize(
    ("columns", "read"),
    [
        ({"dph_base": 1.4, "dph_total": 1.48, "storage_cost": 0.15}, "dph_total"),
        (
            {"price_per_hour": 1.0, "discounted_price_per_hour": 0.8, "upfront_price": 500},
            "discounted_price_per_hour",
        ),
        ({"list_price_hourly": 24, "net_price_hourly": 20}, "net_price_hourly"),
        ({"min_price": 1.1, "price": 1.3}, "price"),
    ],
)
def test_of_several_prices_the_whole_rent_counts_and_the_others_are_named(
    tmp_path: Path, columns: dict[str, float], read: str
) -> None:
    """Source of the first: Vast's interface."""
    for order in (columns, dict(reversed(columns.items()))):
        row = {"provider": "acme", "gpu_name": "RTX 4090", "num_gpus": 4, **order}
        path = file_of(tmp_path, json.dumps([row]))
        catalogue = catalogue_of(path)
        assert catalogue is not None
        assert [float(one.usd_per_hour) for one in catalogue_prices(path, catalogue)] == [columns[read]]
        assert set(unread_columns(path)[0]) == columns.keys() - {read}


def test_a_price_that_some_rows_lack_is_read_where_it_stands(tmp_path: Path) -> None:
    text = "provider,gpu_name,num_gpus,price,discounted_price\nacme,RTX 4090,1,1,0.8\nacme,RTX 3090,1,0.5,\n"
    path = tmp_path / "own.csv"
    path.write_text(text, encoding="utf-8")
    catalogue = catalogue_of(path)
    assert catalogue is not None
    assert [float(one.usd_per_hour) for one in catalogue_prices(path, catalogue)] == [0.8, 0.5]
    assert unread_columns(path)[0] == ()


_NO_PRICES: Final = [
    "Enquire for pricing",
    "on request",
    "Preis auf Anfrage",
    "TBD",
    "Sold out",
    "n/a",
    "-",
    "0.00",
    "$0",
    "cheap",
]
"""Cells of a column of prices that state none."""


@pytest.mark.parametrize("said", _NO_PRICES)
@pytest.mark.parametrize("form", ["csv", "json", "markdown", "skypilot"])
def test_a_row_without_a_price_is_left_out_by_name_and_refuses_no_list(
    tmp_path: Path, said: str, form: str
) -> None:
    rows = [("H200", said), ("L40S", "1.96"), ("B200", said)]
    if form == "json":
        text = json.dumps([{"GPU": gpu, "hourly-price": price} for gpu, price in rows])
    elif form == "markdown":
        text = "| GPU | price per hour |\n|---|---|\n" + "".join(
            f"| {gpu} | {price} |\n" for gpu, price in rows
        )
    elif form == "csv":
        text = "gpu,price\n" + "".join(f"{gpu},{price}\n" for gpu, price in rows)
    else:
        head = (
            "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,Price,SpotPrice\n"
        )
        text = head + "".join(f"m-{gpu},8,64,{gpu},1,,US,{price},\n" for gpu, price in rows)
    file = file_of(tmp_path, text)
    assert [price.accelerator for price in prices.read_prices(file, DAY, ["acme"])] == ["l40s"]
    notes = " ".join(prices.catalogue_notes(file, DAY, ["acme"]))
    assert all(f"{gpu} ({said})" in notes for gpu, price in rows if price == said)


@pytest.mark.parametrize("name", ["T4", "P4", "V100", "P100", "K80", "tpu-v5e"])
@pytest.mark.parametrize("instance", ["", "n1-highmem-8"])
def test_accelerators_without_a_machine_are_no_machine_to_rent(
    tmp_path: Path, name: str, instance: str
) -> None:
    """Source: skypilot-org/skypilot-catalog, catalogs/v8/gcp/vms.csv; the price of a TPU contains its host."""
    text = (
        "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,AvailabilityZone,Price,SpotPrice\n"
        f"{instance},,,{name},1.0,,us-central1,us-central1-a,0.35,0.14\n"
        "g2-standard-12,12.0,48.0,L4,1.0,,us-central1,us-central1-a,0.9990,0.3999\n"
    )
    file = file_of(tmp_path, text)
    found = prices.read_prices(file, DAY, ["acme"])
    is_alone = not instance and not name.startswith("tpu")
    assert any(price.usd_per_hour == 0.35 for price in found) != is_alone
    said = any(
        "without the machine" in note and name in note for note in prices.catalogue_notes(file, DAY, ["acme"])
    )
    assert said == is_alone


def test_lines_of_which_two_look_like_pairs_are_all_read(tmp_path: Path) -> None:
    lines = [
        "8x H100 SXM5 80GB — $2.49/GPU/hr on demand",
        "B200: from $3.79 per GPU-hour (min 8 GPUs)",
        "A100: $1.19/hr",
        "MI300X $2.99/hr",
    ]
    found = prices.read_prices(file_of(tmp_path, "\n".join(lines)), DAY, ["acme"])
    assert {price.accelerator: price.usd_per_hour for price in found} == {
        "h100-sxm": 19.92,
        "b200-sxm": 3.79,
        "a100-sxm-80gb": 1.19,
        "mi300x": 2.99,
    }

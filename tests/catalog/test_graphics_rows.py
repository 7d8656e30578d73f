"""Names of graphics cards in the rows of programs: one reader for lists of parts and for listings of a machine."""

from typing import Final

import pytest

from advisor.catalog.formats.graphics_rows import graphics_in
from advisor.workstation.pasted_text import plain_rows

ROWS: Final = [
    (
        "01:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)",
        "GeForce RTX 3090",
    ),
    (
        "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [GeForce RTX 3090] [10de:2204] (rev a1)",
        "GeForce RTX 3090",
    ),
    ("0000:41:00.0 3D controller: NVIDIA Corporation AD102GL [L40S] (rev a1)", "L40S"),
    ("00:02.0 VGA compatible controller: Intel Corporation AlderLake-S GT1 [UHD Graphics 770] (rev 0c)", ""),
    ("03:00.0 VGA compatible controller: ASPEED Technology, Inc. ASPEED Graphics Family (rev 41)", ""),
    (
        "0c:00.0 VGA compatible controller: AMD [AMD/ATI] Navi 31 [Radeon RX 7900 XT/7900 XTX/7900M] (rev c8)",
        "Radeon RX 7900 XT/7900 XTX/7900M",
    ),
    (
        "0c:00.0 VGA compatible controller [0300]: AMD [AMD/ATI] Navi 33 [Radeon RX 7600/7600 XT] [1002:7480] (rev c0)",
        "Radeon RX 7600/7600 XT",
    ),
    ("GPU 0: NVIDIA GeForce RTX 4060 Ti (UUID: GPU-1234)", "NVIDIA GeForce RTX 4060 Ti"),
    ("GPU: NVIDIA GeForce RTX 4070 Ti SUPER", "NVIDIA GeForce RTX 4070 Ti SUPER"),
    ("GPU: AMD ATI Radeon RX 6800 XT", "AMD ATI Radeon RX 6800 XT"),
    ("GPU 1: AMD Radeon RX 7800 XT [Discrete]", "AMD Radeon RX 7800 XT"),
    ("GPU: NVIDIA GeForce RTX 3080 Lite Hash Rate [Discrete]", "NVIDIA GeForce RTX 3080 Lite Hash Rate"),
    (
        "GPU: AMD Navi 22 [Radeon RX 6700/6700 XT/6750 XT / 6800M/6850M XT]",
        "Radeon RX 6700/6700 XT/6750 XT / 6800M/6850M XT",
    ),
    ("GPU: Intel Raptor Lake-S GT1 [UHD Graphics 770]", ""),
    (
        "/0/100/1/0           display        GA106 [GeForce RTX 3060 Lite Hash Rate]",
        "GeForce RTX 3060 Lite Hash Rate",
    ),
    ("/0/100/3.1/0         /dev/fb0  display        AD104 [GeForce RTX 4070]", "GeForce RTX 4070"),
    (
        "  Device-1: NVIDIA AD103 [GeForce RTX 4080] vendor: Gigabyte driver: nvidia v: 550.90",
        "GeForce RTX 4080",
    ),
    (
        "  Device-1: AMD Navi 32 [Radeon RX 7700 XT / 7800 XT] vendor: Sapphire driver: amdgpu v: kernel",
        "Radeon RX 7700 XT / 7800 XT",
    ),
    ("  Device-2: AMD Raphael vendor: ASUSTeK driver: amdgpu v: kernel", ""),
    (
        "|   0  NVIDIA GeForce RTX 3060        Off |   00000000:01:00.0  On |                  N/A |",
        "NVIDIA GeForce RTX 3060",
    ),
    ("GPU (GP107): NVIDIA GeForce GTX 1050 Ti", "NVIDIA GeForce GTX 1050 Ti"),
    ("GPU1: NVIDIA GeForce RTX 5070 Ti @ 2.48 GHz (15.92 GiB) [Discrete]", "NVIDIA GeForce RTX 5070 Ti"),
]
OTHERS: Final = [
    "01:00.1 Audio device: NVIDIA Corporation GA102 High Definition Audio Controller (rev a1)",
    "CPU: AMD Ryzen 9 7950X (32) @ 5.88 GHz",
    "/0/9                 processor   AMD EPYC 7302 16-Core Processor",
    "| 30%   41C    P8             22W /  280W |       2MiB /  24576MiB |      0%      Default |",
    "",
]


@pytest.mark.parametrize(("row", "name"), ROWS)
def test_a_row_names_the_card_alone(row: str, name: str) -> None:
    assert graphics_in(row) == name


@pytest.mark.parametrize("row", OTHERS)
def test_other_rows_name_no_card(row: str) -> None:
    assert graphics_in(row) is None


@pytest.mark.parametrize(("row", "name"), [pair for pair in ROWS if ":00.0" in pair[0]])
def test_a_list_of_parts_has_the_cards_of_lspci_and_no_other_graphics(row: str, name: str) -> None:
    found = [text for _, text, _ in plain_rows("NVIDIA-SMI\n" + row) if text.startswith("GPU: ")]
    assert found == ([f"GPU: {name}"] if name else [])

"""A machine that keeps every rule, for tests that break one at a time."""

from dataclasses import replace
from typing import Any

import pytest

from advisor.catalog import parts
from advisor.catalog.schema.part import (
    Board,
    Bridge,
    Case,
    Cooler,
    Cpu,
    GpuCard,
    Psu,
    RamKit,
    Riser,
    Slot,
    Storage,
)
from advisor.workstation.assembly import Assembly, Cards, Memory, Risers, Setting, Supplies

GIB = 2.0**30


def sound_machine() -> Assembly:
    """Two blower cards with a bridge on a server board with error correction, in a roomy case."""
    card = GpuCard(
        id="card",
        name="Card",
        accelerator="rtx-a6000",
        power_w=300,
        length_m=0.267,
        slots=2,
        cooling="blower",
        num_8_pin=2,
    )
    cpu = Cpu(
        id="cpu",
        name="EPYC",
        series=parts.cpu_series()["epyc-sp3"],
        cores=16,
        power_w=155,
        ecc=True,
        max_ram_bytes=4096 * GIB,
    )
    board = Board(
        id="board",
        name="Board",
        socket="SP3",
        chipset="SP3",
        form_factor="ATX",
        ram_type="DDR4",
        registered=True,
        ram_max_bytes=2048 * GIB,
        ram_slots=8,
        slots=(Slot(position=1, pcie_generation=4), Slot(position=4, pcie_generation=4)),
        lane_modes=((16,), (16, 16)),
        num_eps=2,
        m2_slots=2,
        ecc=True,
    )
    kit = RamKit(
        id="kit",
        name="Kit",
        ram_type="DDR4",
        registered=True,
        ecc=True,
        modules=8,
        module_bytes=16 * GIB,
        speed_mts=3200,
    )
    psu = Psu(
        id="psu",
        name="Supply",
        power_w=1600,
        grade="titanium",
        length_m=0.2,
        num_eps=2,
        num_16_pin=2,
        num_8_pin=8,
    )
    case = Case(
        id="case",
        name="Case",
        form_factor="ATX Full Tower",
        boards=("EATX", "ATX"),
        max_gpu_m=0.4,
        max_cooler_m=0.18,
        max_psu_m=0.25,
        expansion_slots=8,
        num_psus=1,
    )
    cooler = Cooler(id="cooler", name="Tower", sockets=("SP3",), height_m=0.16)
    return Assembly(
        cards=Cards((card, card)),
        cpu=cpu,
        board=board,
        memory=Memory(kit),
        supplies=Supplies((psu,)),
        case=case,
        cooler=cooler,
        storage=Storage(id="drive", name="Drive", capacity_bytes=2e12, pcie_generation=4),
        risers=Risers(Riser(id="riser", name="Riser", pcie_generation=4, length_m=0.2), 2),
        bridges=(Bridge(id="bridge", name="Bridge", accelerators=("rtx-a6000",), spacings_slots=(3,)),),
    )


def change_part(machine: Assembly, place: str, **fields: Any) -> Assembly:
    """The machine with some figures of one part replaced."""
    part = getattr(machine, place)
    return replace(machine, **{place: part.model_copy(update=fields)})


@pytest.fixture
def machine() -> Assembly:
    return sound_machine()


@pytest.fixture
def setting() -> Setting:
    return Setting()

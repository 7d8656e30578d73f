"""PCI ids of boards: the accelerator of the catalog that each of them names."""

from typing import Final

from advisor.catalog.files import DATA_DIR, read_csv

_PCI_IDS: Final = DATA_DIR / "boards" / "pci_ids.csv"


def accelerator_of(pci_id: str) -> str:
    """Return the catalog id of the board with this PCI vendor and device id, e.g. 10de:2335; empty if unknown."""
    rows = read_csv(_PCI_IDS, ("pci_id", "accelerator"))
    return next((row["accelerator"] for _, row in rows if row["pci_id"] == pci_id.lower()), "")


def pci_pair(value: int) -> str:
    """Return vendor and device, e.g. 10de:2335, from NVML's combined number 0x233510de."""
    return f"{value & 0xFFFF:04x}:{value >> 16 & 0xFFFF:04x}"

"""Record types of the catalog, which every room reads and passes on."""

from advisor.catalog.schema.accelerator import Accelerator, Interconnect, ScaleUp
from advisor.catalog.schema.calibration import Calibration, ServerCalibration
from advisor.catalog.schema.efficiency import CollectiveRecord, EfficiencyRecord, Residual
from advisor.catalog.schema.engine import (
    DefaultsFor,
    EarlierMemory,
    Engine,
    HostCache,
    KernelChoice,
    KernelLevel,
    LaunchFlags,
    MemoryReserve,
    PriorityRule,
    ReleaseFormat,
    ReleasesInTurns,
    ReleaseSpan,
    SparseLatentKernels,
)
from advisor.catalog.schema.model import (
    DenseFeedForward,
    FeedForward,
    GatedDeltaNet,
    GroupedQueryAttention,
    LatentAttention,
    LayerGroup,
    Mamba2,
    Mixer,
    Model,
    MoeFeedForward,
    VisionTower,
)
from advisor.catalog.schema.price import Price
from advisor.catalog.schema.record import Provenance, Record, Source

__all__ = [
    "Accelerator",
    "Calibration",
    "CollectiveRecord",
    "DefaultsFor",
    "DenseFeedForward",
    "EarlierMemory",
    "EfficiencyRecord",
    "Engine",
    "FeedForward",
    "GatedDeltaNet",
    "GroupedQueryAttention",
    "HostCache",
    "Interconnect",
    "KernelChoice",
    "KernelLevel",
    "LatentAttention",
    "LaunchFlags",
    "LayerGroup",
    "Mamba2",
    "MemoryReserve",
    "Mixer",
    "Model",
    "MoeFeedForward",
    "Price",
    "PriorityRule",
    "Provenance",
    "Record",
    "ReleaseFormat",
    "ReleaseSpan",
    "ReleasesInTurns",
    "Residual",
    "ScaleUp",
    "ServerCalibration",
    "Source",
    "SparseLatentKernels",
    "VisionTower",
]

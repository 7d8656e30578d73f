"""Moving a prompt's cache from where it was computed to where it is decoded, over links that requests share."""

from dataclasses import dataclass, field
from heapq import heapreplace

from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import PICOSECONDS_PER_S


@dataclass(frozen=True, slots=True)
class KvLink:
    """What a transfer moves, and over what.

    A worker has `num_channels` independent links (its attention data-parallel ranks), each of which carries one
    request's cache at a time.

    Source: own definition.
    """

    bytes_per_token: float
    bytes_per_s: float
    """Of one channel, one direction."""
    latency_s: float = 0.0
    """Once per request: blocks are announced, and asked for."""
    fixed_bytes: float = 0.0
    """Recurrent state, whatever the length."""
    num_layers: int = 1
    layer_wise: bool = True
    """A layer's cache leaves while the next layers are computed; otherwise all of it after the prompt."""
    sender_channels: int = 1
    receiver_channels: int = 1

    def __post_init__(self) -> None:
        if not self.bytes_per_s > 0 or min(self.bytes_per_token, self.latency_s, self.fixed_bytes) < 0:
            raise AdvisorError("a KV link needs a positive rate, and sizes and latency of at least 0")
        if min(self.num_layers, self.sender_channels, self.receiver_channels) < 1:
            raise AdvisorError("a KV link needs at least one layer and one channel on each side")


@dataclass(slots=True)
class Channels:
    """When each of a worker's links is free again [ps]."""

    num_channels: int
    free_ps: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free_ps = [0] * self.num_channels


def transferred_ps(
    link: KvLink, sender: Channels, receiver: Channels, tokens: int, computed_from_ps: int, computed_ps: int
) -> int:
    """When the cache of a prompt that was computed between two instants is in place; occupies both links [ps].

    It starts when both links are free, and, layer by layer, once the first layer is computed; it cannot end before
    the last layer has followed the end of the computation:

        start = max(links free, computed - (computed - computed_from) · (layers - 1) / layers)
        end = max(start + bytes / rate, computed + bytes / rate / layers) + latency

    Without layer-wise transfer it starts when the prompt is computed.

    Assumes: layers take equal times and have equal caches; links serve one request at a time in order of computation.
    Source: own derivation; layer-wise transfer as in Patel et al. 2024 (Splitwise), arXiv:2311.18677.
    """
    num_bytes = link.bytes_per_token * tokens + link.fixed_bytes
    whole_ps = round(num_bytes / link.bytes_per_s * PICOSECONDS_PER_S)
    layers = link.num_layers if link.layer_wise else 1
    ready_ps = computed_ps - (computed_ps - computed_from_ps) * (layers - 1) // layers
    start_ps = max(sender.free_ps[0], receiver.free_ps[0], ready_ps)
    end_ps = max(start_ps + whole_ps, computed_ps + whole_ps // layers)
    for side in (sender, receiver):
        heapreplace(side.free_ps, end_ps)
    return end_ps + round(link.latency_s * PICOSECONDS_PER_S)

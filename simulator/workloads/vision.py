"""Images as input of a language model: tokens, cost of encoding, and the effect of both on serving."""

import math
from dataclasses import dataclass, replace

import numpy as np

from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.catalog.vision import ImageScheme
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.workloads.encoder_pass import RUNTIMES, encoder_pass


@dataclass(frozen=True, slots=True)
class ImageTokens:
    """One image as the model sees it."""

    language_tokens: int
    """Number of tokens that enter the language model, separators included."""
    num_passes: int
    """Number of sequences of the encoder: tiles, or one for the whole image."""
    patches_per_pass: int
    """Number of tokens of one of these sequences inside the encoder."""


def tokens_of_image(scheme: ImageScheme, width: int, height: int) -> ImageTokens:
    """Return the tokens of one image of width × height pixels under a scheme.

    fixed: always the same number. grid: tiles of fixed size by the best fitting grid, together with the whole image.
    tiles: as grid, with a token count per tile. merged: the image itself in patches, of which merge² become one token.

    Raises: AdvisorError: the image has no pixels, or sides more than 200 to 1.
    Source: the scheme's record; processors of the transformers library.
    """
    if min(width, height) < 1 or max(width, height) > 200 * min(width, height):
        raise AdvisorError(f"an image of {width} × {height} pixels cannot be encoded", fix="e.g. 1024x768")
    if scheme.kind == "fixed":
        return ImageTokens(scheme.tokens_per_tile, 1, scheme.patches_per_tile)
    if scheme.kind == "merged":
        return _merge_patches(scheme, width, height)
    if scheme.kind == "rows":
        return _rows(scheme, width, height)
    if scheme.kind == "grid":
        return _grid(scheme, width, height)
    return _tiles(scheme, width, height)


def _merge_patches(scheme: ImageScheme, width: int, height: int) -> ImageTokens:
    """Return the tokens of an image whose sides are rounded to whole tokens, its area kept between the scheme's
    bounds."""
    unit = scheme.patch * scheme.merge
    rows = max(unit, round(height / unit) * unit)
    columns = max(unit, round(width / unit) * unit)
    if rows * columns > scheme.max_pixels:
        shrink = math.sqrt(height * width / scheme.max_pixels)
        rows = max(unit, math.floor(height / shrink / unit) * unit)
        columns = max(unit, math.floor(width / shrink / unit) * unit)
    elif rows * columns < scheme.min_pixels:
        grow = math.sqrt(scheme.min_pixels / (height * width))
        rows = math.ceil(height * grow / unit) * unit
        columns = math.ceil(width * grow / unit) * unit
    patches = (rows // scheme.patch) * (columns // scheme.patch)
    return ImageTokens(patches // scheme.merge**2 + scheme.extra_tokens, 1, patches)


def _rows(scheme: ImageScheme, width: int, height: int) -> ImageTokens:
    """Return the tokens of an image whose sides are shrunk to the longest allowed, with a separator behind every row of
    tokens."""
    unit = scheme.patch * scheme.merge
    shrink = max(1.0, max(width, height) / scheme.max_side)
    columns, rows = (max(1, math.ceil(int(side / shrink) / unit)) for side in (width, height))
    return ImageTokens(rows * (columns + 1), 1, rows * columns * scheme.merge**2)


def _tiles(scheme: ImageScheme, width: int, height: int) -> ImageTokens:
    """Return the tokens of the grid of tiles whose aspect is nearest the image's; in a tie, of the larger one if filled
    by half."""
    ratio = width / height
    best = (1, 1)
    for columns, rows in _grids(scheme.max_tiles):
        nearer = abs(ratio - columns / rows) - abs(ratio - best[0] / best[1])
        fills = width * height > 0.5 * scheme.tile**2 * columns * rows
        if nearer < 0 or (nearer == 0 and fills):
            best = (columns, rows)
    tiles = best[0] * best[1]
    tiles += 1 if tiles > 1 and scheme.overview else 0
    return ImageTokens(tiles * scheme.tokens_per_tile + scheme.extra_tokens, tiles, scheme.patches_per_tile)


def _grids(most: int) -> list[tuple[int, int]]:
    found = [
        (columns, rows)
        for columns in range(1, most + 1)
        for rows in range(1, most + 1)
        if columns * rows <= most
    ]
    return sorted(found, key=lambda grid: grid[0] * grid[1])


def _grid(scheme: ImageScheme, width: int, height: int) -> ImageTokens:
    """Return the tokens of the grid that keeps most of the image and wastes least, padding cut off, a separator per row
    of tokens."""
    side = scheme.tile

    def fit_grid(grid: tuple[int, int]) -> tuple[int, int]:
        columns = grid[0] * side
        rows = grid[1] * side
        scale = min(columns / width, rows / height)
        effective = min(int(width * scale) * int(height * scale), width * height)
        return effective, effective - columns * rows

    columns, rows = max(scheme.grids, key=fit_grid)
    across = columns * scheme.tile // scheme.patch
    down = rows * scheme.tile // scheme.patch
    if width / height > across / down:
        down -= 2 * ((down - int(round(height * (across / width), 7))) // 2)
    else:
        across -= 2 * ((across - int(round(width * (down / height), 7))) // 2)
    tokens = across * down + down + scheme.tokens_per_tile
    return ImageTokens(tokens, columns * rows + 1, scheme.patches_per_tile)


def image_encoder_s(
    deployment: Deployment,
    library: OperatorLibrary,
    scheme: ImageScheme,
    image: ImageTokens,
    num_images: float = 1.0,
) -> float:
    """Time to encode images on one accelerator of a replica [s], compiled by torch.

    Assumes: every rank encodes its own share of the images at best, and one image is not split; the projector is
    small.
    Source: encoder_pass over the tower of the scheme's record.
    """
    tower = replace(
        deployment,
        model=scheme.tower_model(),
        weight_dtype="bf16",
        activation_dtype="bf16",
        tensor_parallel=1,
        pipeline_parallel=1,
        data_parallel=1,
        expert_parallel=1,
    )
    passes = np.array([num_images * image.num_passes], dtype=np.float64)
    runtime = RUNTIMES["torch-compile"]
    return float(encoder_pass(tower, library, passes, image.patches_per_pass, runtime=runtime).total_s[0])


def vision_replica(
    replica: ReplicaModel,
    scheme: ImageScheme,
    image: ImageTokens,
    images_per_request: float,
    mean_input_tokens: float,
) -> ReplicaModel:
    """Return the replica with an image encoder in front: its time is in every prompt, its weights reduce the cache.

    An iteration with a prompt's chunk also encodes that chunk's share of the prompt's images.

    Assumes: images are spread evenly over a prompt's chunks; the encoder's weights are split over the ranks, as those
    of the language model are; its activations fit where the language model's profile run was.
    Raises: InfeasibleError: nothing is left for the cache.
    Source: own composition.
    """
    chunks = max(1.0, math.ceil(mean_input_tokens / replica.policy.max_num_batched_tokens))
    seconds = image_encoder_s(replica.deployment, replica.library, scheme, image, images_per_request)
    surface = replica.surface
    extra_ps = round(seconds / chunks * PICOSECONDS_PER_S)
    surface = replace(surface, prefill_sequence_ps=surface.prefill_sequence_ps + extra_ps)
    already = replica.deployment.model.vision.parameters if replica.deployment.model.vision else 0.0
    if already:
        return replace(replica, surface=surface)
    ranks = replica.deployment.accelerators_per_replica
    weights = parameter_count(scheme.tower_model()).total * 2.0 / ranks
    left = replica.memory.kv_bytes - weights
    if left <= 0 or replica.policy.kv_capacity_blocks is None:
        raise InfeasibleError(
            "the image encoder leaves no room for a cache", fix="more accelerators per replica"
        )
    blocks = int(replica.policy.kv_capacity_blocks * left / replica.memory.kv_bytes)
    return replace(
        replica, surface=surface, policy=replace(replica.policy, kv_capacity_blocks=max(1, blocks))
    )

"""U-Nets of latent diffusion as operators: convolutions, linear layers and attention of every level, counted once."""

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.catalog.diffusion import UNet
from advisor.simulator.graph.convolution import Convolution

_TIME_WIDTHS = 4
"""Width of the embedding of the time step over that of the first level."""
_GATED_WIDTHS = 8
"""Columns of the gated feed-forward part's first matrix over the width: twice four."""


@dataclass(frozen=True, slots=True)
class ImageAttention:
    """`count` attention operators in which `queries` positions attend to `keys`."""

    count: int
    queries: int
    keys: int
    num_heads: int
    head_dim: int
    is_cross: bool
    """Whether keys are those of the prompt."""

    @property
    def flop(self) -> float:
        """FLOP of scores and weighted sums [flop]. Source: definition."""
        return 4.0 * self.count * self.queries * self.keys * self.num_heads * self.head_dim


@dataclass(frozen=True, slots=True)
class UNetOperators:
    """Operators of one pass over one latent image."""

    convolutions: tuple[Convolution, ...]
    linears: tuple[Convolution, ...]
    """Linear layers over the positions of a level, and over the prompt's tokens."""
    attention: tuple[ImageAttention, ...]
    per_image: tuple[Convolution, ...]
    """Linear layers of the time step and of the pooled prompt: one row per image."""

    @property
    def flop(self) -> float:
        """FLOP of one pass [flop]. Source: definition."""
        products = sum(part.flop for part in (*self.convolutions, *self.linears, *self.per_image))
        return products + sum(part.flop for part in self.attention)

    @property
    def parameters(self) -> float:
        """Weights without norms and biases. Source: definition."""
        return sum(part.parameters for part in (*self.convolutions, *self.linears, *self.per_image))

    @property
    def launches(self) -> int:
        """Number of operators that a host launches: a norm and an activation before each convolution, a norm, an
        activation or a sum with each linear layer. Source: own count over diffusers' modules."""
        around = 3 * sum(part.count for part in self.convolutions)
        around += 2 * sum(part.count for part in (*self.linears, *self.per_image))
        return around + sum(part.count for part in self.attention)


class _Builder:
    """Collection of the operators of one U-Net while its levels are walked."""

    def __init__(self, unet: UNet, context_tokens: int) -> None:
        self.unet = unet
        self.context_tokens = context_tokens
        self.convolutions = list[Convolution]()
        self.linears = list[Convolution]()
        self.attention = list[ImageAttention]()
        self.per_image = list[Convolution]()

    def convolve(self, pixels: int, inputs: int, outputs: int, area: int = 9) -> None:
        self.convolutions.append(Convolution(1, pixels, inputs, outputs, area))

    def residual(self, pixels: int, inputs: int, outputs: int) -> None:
        """Add a residual block: two convolutions, the time step's projection, and a shortcut if channels change."""
        self.convolve(pixels, inputs, outputs)
        self.convolve(pixels, outputs, outputs)
        time = _TIME_WIDTHS * self.unet.channels[0]
        self.per_image.append(Convolution(1, 1, time, outputs, 1))
        if inputs != outputs:
            self.convolve(pixels, inputs, outputs, area=1)

    def transform(self, level: int, pixels: int) -> None:
        """Add the transformer blocks of a level: attention to the image, attention to the prompt, feed-forward part."""
        depth = self.unet.transformer_layers[level]
        width = self.unet.channels[level]
        if not depth:
            return
        head_dim = self.unet.head_dim or width // (self.unet.num_heads or 1)
        heads = width // head_dim
        self.linears += [
            Convolution(2, pixels, width, width, 1),
            Convolution(6 * depth, pixels, width, width, 1),
            Convolution(depth, pixels, width, _GATED_WIDTHS * width, 1),
            Convolution(depth, pixels, _GATED_WIDTHS // 2 * width, width, 1),
            Convolution(2 * depth, self.context_tokens, self.unet.context_width, width, 1),
        ]
        self.attention += [
            ImageAttention(depth, pixels, pixels, heads, head_dim, is_cross=False),
            ImageAttention(depth, pixels, self.context_tokens, heads, head_dim, is_cross=True),
        ]


def unet_operators(unet: UNet, width: int, height: int, context_tokens: int) -> UNetOperators:
    """Return the operators of one pass over one image.

    On the way down every level has its residual blocks, each with its transformer blocks, and a convolution with
    stride 2; on the way up one block more, over the channels of the level below and those that were kept on the
    way down.

    Source: Rombach et al. 2022, arXiv:2112.10752; Podell et al. 2023 (SDXL), arXiv:2307.01952, section 2.1;
    huggingface/diffusers, models/unets/unet_2d_condition.py.
    """
    build = _Builder(unet, context_tokens)
    levels = range(len(unet.channels))
    pixels = [(width // 8 >> level) * (height // 8 >> level) for level in levels]
    first = unet.channels[0]
    build.per_image += [Convolution(1, 1, first, _TIME_WIDTHS * first, 1)]
    build.per_image += [Convolution(1, 1, _TIME_WIDTHS * first, _TIME_WIDTHS * first, 1)]
    if unet.pooled_width:
        build.per_image += [Convolution(1, 1, unet.pooled_width, _TIME_WIDTHS * first, 1)]
        build.per_image += [Convolution(1, 1, _TIME_WIDTHS * first, _TIME_WIDTHS * first, 1)]
    build.convolve(pixels[0], unet.latent_channels, first)
    kept = _go_down(build, pixels)
    deepest = levels[-1]
    bottom = unet.channels[deepest]
    build.residual(pixels[deepest], bottom, bottom)
    _transform_middle(build, deepest, pixels[deepest])
    build.residual(pixels[deepest], bottom, bottom)
    _go_up(build, pixels, kept)
    build.convolve(pixels[0], first, unet.latent_channels)
    return UNetOperators(
        tuple(build.convolutions), tuple(build.linears), tuple(build.attention), tuple(build.per_image)
    )


def _go_down(build: _Builder, pixels: Sequence[int]) -> list[int]:
    """Add the levels on the way down; return the channels of what is kept for the way up, first to last."""
    channels = build.unet.channels
    inputs = channels[0]
    kept = [inputs]
    for level, width in enumerate(channels):
        for _ in range(build.unet.blocks_per_level):
            build.residual(pixels[level], inputs, width)
            build.transform(level, pixels[level])
            inputs = width
            kept.append(width)
        if level < len(channels) - 1:
            build.convolve(pixels[level + 1], width, width)
            kept.append(width)
    return kept


def _transform_middle(build: _Builder, deepest: int, pixels: int) -> None:
    """Add the transformer blocks of the middle: those of the deepest level, or one block where it has none."""
    if build.unet.transformer_layers[deepest]:
        build.transform(deepest, pixels)
        return
    layers = list(build.unet.transformer_layers)
    layers[deepest] = 1
    inner = build.unet
    build.unet = inner.model_copy(update={"transformer_layers": tuple(layers)})
    build.transform(deepest, pixels)
    build.unet = inner


def _go_up(build: _Builder, pixels: Sequence[int], kept: list[int]) -> None:
    """Add the levels on the way up, each block over its input and what was kept."""
    channels = build.unet.channels
    inputs = channels[-1]
    for level in reversed(range(len(channels))):
        width = channels[level]
        for _ in range(build.unet.blocks_per_level + 1):
            build.residual(pixels[level], inputs + kept.pop(), width)
            build.transform(level, pixels[level])
            inputs = width
        if level:
            build.convolve(pixels[level - 1], width, width)

"""Convolutions of images and videos: their counts, as multiplications of positions by channels."""

from dataclasses import dataclass

SQUARE = 9
"""Positions under a kernel of 3 × 3."""


@dataclass(frozen=True, slots=True)
class Convolution:
    """`count` equal convolutions over `pixels` positions."""

    count: int
    pixels: int
    inputs: int
    outputs: int
    area: int = SQUARE
    """Positions under the kernel; 1 for a linear layer over channels."""

    @property
    def flop(self) -> float:
        """FLOP of all convolutions [flop]. Source: definition."""
        return 2.0 * self.count * self.pixels * self.area * self.inputs * self.outputs

    @property
    def parameters(self) -> float:
        """Weights of all convolutions. Source: definition."""
        return float(self.count * self.area * self.inputs * self.outputs)


def decoder_convolutions(width: int, height: int, latent_channels: int) -> tuple[Convolution, ...]:
    """Return the convolutions of the KL decoder of Stable Diffusion and FLUX for one image.

    Latents have 1/8 of the width and height; four levels of 512, 512, 256 and 128 channels with three residual blocks
    each, of which the first changes the channels; two more blocks in the middle.

    Assumes: 1 × 1 shortcuts and the attention in the middle are small.
    Source: CompVis/latent-diffusion, ldm/modules/diffusionmodules/model.py (Decoder); ch 128, ch_mult 1, 2, 4, 4.
    """
    latent = (width // 8) * (height // 8)
    middle = Convolution(4, latent, 512, 512)
    first = Convolution(1, latent, latent_channels, 512)
    return (first, middle, *_levels(latent, (512, 512, 256, 128)))


def deep_decoder_convolutions(width: int, height: int, latent_channels: int) -> tuple[Convolution, ...]:
    """Return the convolutions of the deep-compression decoder of SANA for one image.

    Latents have 1/32 of the width and height; six levels of 1024, 1024, 512, 512, 256 and 128 channels with three
    blocks each.

    Assumes: blocks with linear attention cost as much as residual blocks of their width, within 12 % of their flop.
    Source: DC-AE, arXiv:2410.10733, table 8; mit-han-lab/efficientvit, dc-ae-f32c32.
    """
    latent = (width // 32) * (height // 32)
    first = Convolution(1, latent, latent_channels, 1024)
    return (first, *_levels(latent, (1024, 1024, 512, 512, 256, 128)))


def _levels(pixels: int, widths: tuple[int, ...]) -> list[Convolution]:
    """Return three residual blocks a level, each level with twice the resolution of the one before, and the image."""
    found = list[Convolution]()
    inputs = widths[0]
    for level, channels in enumerate(widths):
        found += [Convolution(1, pixels, inputs, channels), Convolution(5, pixels, channels, channels)]
        if level < len(widths) - 1:
            pixels *= 4
            found.append(Convolution(1, pixels, channels, channels))
        inputs = channels
    found.append(Convolution(1, pixels, widths[-1], 3))
    return found

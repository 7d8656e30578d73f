"""Diffusion pipelines: text encoders, image decoder and usual settings of each diffusion transformer."""

from functools import lru_cache
from typing import Literal, Self

from pydantic import Field, model_validator

from advisor.catalog.files import named_records
from advisor.catalog.resolve import resolve
from advisor.catalog.schema.record import Record, Source


class TextEncoder(Record):
    """Text encoder that runs once per image."""

    name: str
    parameters: float = Field(gt=0)
    """Parameters of the encoder's layers."""
    layers: int = Field(ge=1)
    hidden_size: int = Field(ge=1)
    tokens: int = Field(ge=1)


class UNet(Record):
    """Shape of a U-Net over latents of 1/8 of the width and height."""

    channels: tuple[int, ...] = Field(min_length=2)
    """Channels of each level, highest resolution first."""
    transformer_layers: tuple[int, ...]
    """Number of transformer blocks behind each residual block, by level; 0: none."""
    blocks_per_level: int = Field(default=2, ge=1)
    context_width: int = Field(ge=1)
    """Width of the prompt's tokens."""
    head_dim: int | None = Field(default=None, ge=1)
    """Head dimension of attention; None: `num_heads` heads at every level."""
    num_heads: int | None = Field(default=None, ge=1)
    pooled_width: int = Field(default=0, ge=0)
    """Width of pooled prompt and sizes beside the time step (SDXL); 0: the time step alone."""
    latent_channels: int = Field(default=4, ge=1)

    @model_validator(mode="after")
    def _has_a_depth_for_each_level(self) -> Self:
        if len(self.transformer_layers) != len(self.channels):
            raise ValueError("transformer_layers and channels differ in length")
        return self


class DiffusionPipeline(Record):
    """Components and settings around one diffusion transformer of the catalog."""

    id: str
    """Id of the model record."""
    pixels_per_token: int = Field(ge=1)
    """Side of the square of pixels behind one token: the autoencoder's factor times the patch."""
    text_tokens: int = Field(default=0, ge=0)
    """Number of text tokens that run through the transformer together with the image's."""
    guidance: Literal["classifier_free", "distilled", "none"]
    """classifier_free runs every step twice; distilled models take the strength as an input."""
    default_steps: int = Field(ge=1)
    default_width: int
    default_height: int
    frames_per_latent: int = Field(default=1, ge=1)
    """Number of frames behind one latent frame after the first; 1 for images."""
    latent_frames_per_token: int = Field(default=1, ge=1)
    """Number of latent frames behind one token: the patch's depth."""
    default_frames: int = Field(default=1, ge=1)
    """Number of frames of a video; 1 for images."""
    latent_channels: int = Field(ge=1)
    decoder_parameters: float = Field(ge=0)
    decoder: Literal["kl", "deep"] = "kl"
    """Autoencoder of images: kl, 8-fold (Stable Diffusion, FLUX); deep, 32-fold (DC-AE of SANA)."""
    decoder_bytes_per_value: Literal[2, 4] = 2
    """Width of the values in which images are decoded [bytes]; 4: SDXL's decoder overflows in 16 bits."""
    decoder_rework: float = Field(default=1.0, ge=1)
    """Work of decoding in overlapping tiles over that of decoding the whole; 1 without tiles."""
    mixing_widths: float = Field(default=0.0, ge=0)
    """Values per token and width that convolutions along the image read and write in each layer; 0 without them."""
    context_tokens: int = Field(default=77, ge=1)
    """Tokens of the prompt that a U-Net attends to."""
    unet: UNet | None = None
    """Shape of the U-Net; None: the model record's layers are a transformer."""
    text_encoders: tuple[TextEncoder, ...] = ()
    sources: tuple[Source, ...]

    @property
    def makes_videos(self) -> bool:
        """Whether the autoencoder compresses time."""
        return self.frames_per_latent > 1

    def latent_frames(self, frames: int) -> int:
        """Number of latent frames: the first frame alone, then one for each `frames_per_latent`, the last padded."""
        return 1 + -(-(frames - 1) // self.frames_per_latent)


@lru_cache(maxsize=1)
def all_pipelines() -> dict[str, DiffusionPipeline]:
    """Return every pipeline by the id of its model.

    Source: data/diffusion.toml, each with its own sources.
    """
    return named_records(DiffusionPipeline, "diffusion.toml")


def get(model_id: str) -> DiffusionPipeline:
    """Return the pipeline of a model.

    Raises: UnknownNameError: no pipeline is recorded for it; near misses are in the hint.
    """
    pipelines = all_pipelines()
    return pipelines[resolve(model_id, tuple(pipelines), {}, "diffusion model").id]

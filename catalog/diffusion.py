"""Diffusion pipelines: text encoders, image decoder and usual settings of each diffusion transformer."""

from functools import lru_cache
from typing import Literal

from pydantic import Field

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

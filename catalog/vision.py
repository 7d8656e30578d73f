"""Image tokens of vision-language models, and the vision encoders that produce them."""

from functools import lru_cache
from typing import Literal

from pydantic import Field

from advisor.catalog.errors import UnknownNameError
from advisor.catalog.files import named_records
from advisor.catalog.resolve import resolve
from advisor.catalog.schema import DenseFeedForward, GroupedQueryAttention, LayerGroup, Model
from advisor.catalog.schema.record import Record, Source


class Tower(Record):
    """Vision transformer of a vision-language model."""

    layers: int = Field(ge=1)
    hidden_size: int = Field(ge=1)
    num_heads: int = Field(ge=1)
    intermediate_size: int = Field(ge=1)
    gated: bool = False


class ImageScheme(Record):
    """Rule that turns an image's pixels into tokens."""

    id: str
    name: str
    kind: Literal["fixed", "grid", "tiles", "merged", "rows"]
    models: tuple[str, ...] = ()
    """Beginnings of the ids of catalog models that use the scheme."""
    model_types: tuple[str, ...] = ()
    """Model types of files whose class uses the scheme."""
    tower_types: tuple[str, ...] = ()
    """Model types of the files' towers; empty if the type of the whole file says it."""
    patch: int = Field(ge=1)
    merge: int = Field(default=1, ge=1)
    """Number of patches per side that become one token."""
    tile: int = 0
    """Side of a tile [pixels]; 0 for schemes without tiles."""
    max_tiles: int = 0
    grids: tuple[tuple[int, int], ...] = ()
    """Columns and rows that a grid may have."""
    overview: bool = True
    """Whether the whole image is encoded in addition to its tiles."""
    tokens_per_tile: int = 0
    extra_tokens: int = 0
    min_pixels: int = 0
    max_pixels: int = 0
    max_side: int = 0
    tower: Tower
    sources: tuple[Source, ...]

    @property
    def patches_per_tile(self) -> int:
        """Number of tokens inside the encoder per tile."""
        return (self.tile // self.patch) ** 2

    def tower_model(self) -> Model:
        """Return the encoder as a model record."""
        tower = self.tower
        mixer = GroupedQueryAttention(
            num_heads=tower.num_heads,
            num_kv_heads=tower.num_heads,
            head_dim=tower.hidden_size // tower.num_heads,
            causal=False,
        )
        feed_forward = DenseFeedForward(intermediate_size=tower.intermediate_size, gated=tower.gated)
        return Model(
            id=f"{self.id}-tower",
            name=f"{self.name} vision tower",
            hidden_size=tower.hidden_size,
            vocab_size=1,
            tied_embeddings=True,
            layers=(LayerGroup(count=tower.layers, mixer=mixer, feed_forward=feed_forward),),
            workload="encoder",
        )


@lru_cache(maxsize=1)
def all_schemes() -> dict[str, ImageScheme]:
    """Return every scheme by name.

    Source: data/vision.toml, each with its own sources.
    """
    return named_records(ImageScheme, "vision.toml")


def get(name: str) -> ImageScheme:
    """Return the scheme with this name.

    Raises: UnknownNameError: no scheme has this name; near misses are in the hint.
    """
    return all_schemes()[resolve(name, tuple(all_schemes()), {}, "image scheme").id]


def scheme_of(model: Model) -> ImageScheme:
    """Return the scheme of a catalog model, or that of the class and tower of a local config.json.

    Raises: UnknownNameError: no scheme is recorded for it.
    """
    fitting = [
        (len(prefix), scheme)
        for scheme in all_schemes().values()
        for prefix in scheme.models
        if model.id.startswith(prefix)
    ]
    if not fitting and (found := _scheme_of_class(model)) is not None:
        return found
    if not fitting:
        sees = model.vision is not None
        raise UnknownNameError(
            f"how {model.id} reads images is not recorded",
            why="its scheme is not in the catalog" if sees else "its record has no image tower",
            fix=f"--image-scheme, if it has one of {', '.join(all_schemes())}"
            if sees
            else "a --model with images",
        )
    return max(fitting, key=lambda found: found[0])[1]


def _scheme_of_class(model: Model) -> ImageScheme | None:
    """Return the scheme of a file's model type and kind of tower, of several the one with the nearest width of tower;
    None if there is none."""
    tower = model.vision
    if tower is None:
        return None
    fitting = [
        scheme
        for scheme in all_schemes().values()
        if model.family in scheme.model_types
        and (not scheme.tower_types or tower.family in scheme.tower_types)
    ]
    width = tower.hidden_size
    return min(fitting, key=lambda one: abs(one.tower.hidden_size - width) if width else 0, default=None)

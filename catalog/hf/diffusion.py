"""Reader of diffusion transformers from their config.json."""

from typing import Final

from advisor.catalog.hf.fields import ConfigFields
from advisor.catalog.schema import DenseFeedForward, GroupedQueryAttention, LayerGroup, Model, Source

_MLP_RATIO: Final = 4
_TIME_FREQUENCIES: Final = 256


def diffusion_model(config: ConfigFields, name: str) -> Model:
    """Return a diffusion transformer of the diffusers library (FLUX, SD3, PixArt, DiT).

    Blocks with two streams hold a second set of matrices for the text tokens. These matrices, and the
    modulation of every block by the time step, are parameters without work per image token.

    Assumes: MLP four times as wide as the stream; modulation by 6 (double), 3 (single) times the width; time
    embedded from 256 frequencies by two matrices, output modulated by 2 times the width.
    Raises: InputFileError: heads or layers are missing or absurd.
    Source: diffusers FluxTransformer2DModel, SD3Transformer2DModel, DiTTransformer2DModel.
    """
    num_heads = config.count("num_attention_heads")
    head_dim = config.count("attention_head_dim")
    hidden = num_heads * head_dim
    num_double = config.count("num_layers")
    num_single = config.optional_number("num_single_layers")
    two_streams = config.has("joint_attention_dim")
    stream = 4 * hidden**2 + 2 * _MLP_RATIO * hidden**2
    modulation = (2 if two_streams else 1) * 6 * num_double * hidden**2 + 3 * num_single * hidden**2
    conditioning = (_TIME_FREQUENCIES + config.optional_number("num_embeds_ada_norm") + 3 * hidden) * hidden
    layer = LayerGroup(
        count=num_double + num_single,
        mixer=GroupedQueryAttention(
            num_heads=num_heads, num_kv_heads=num_heads, head_dim=head_dim, causal=False
        ),
        feed_forward=DenseFeedForward(intermediate_size=_MLP_RATIO * hidden, gated=False),
    )
    return Model(
        id=name.lower(),
        name=name,
        family=config.text("_class_name"),
        hidden_size=hidden,
        vocab_size=1,
        tied_embeddings=True,
        layers=(layer,),
        extra_parameters=float(modulation + conditioning + (num_double * stream if two_streams else 0)),
        workload="diffusion",
        sources=(Source(kind="derived", title="local config.json", where="transformer/config.json"),),
    )

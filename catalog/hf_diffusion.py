"""Diffusion transformers and Whisper from their config.json."""

from typing import Final

from advisor.catalog.config_fields import ConfigFields
from advisor.catalog.schema import DenseFeedForward, GroupedQueryAttention, LayerGroup, Model, Source

_MLP_RATIO: Final = 4
_TIME_FREQUENCIES: Final = 256
_WHISPER_ENCODER_TOKENS: Final = 1500
"""30 s of audio at 50 frames per second, whatever is said in it."""


def diffusion_model(config: ConfigFields, name: str) -> Model:
    """A diffusion transformer of the diffusers library (FLUX, SD3, PixArt, DiT).

    Blocks with two streams hold a second set of matrices for the text tokens: those, and the modulation of
    every block by the time step, are parameters without work per image token.

    Assumes: MLP four times as wide as the stream; modulation by 6 (double), 3 (single) times the width; time
    embedded from 256 frequencies by two matrices, output modulated by 2 times the width.
    Raises: InputFileError: heads or layers are missing or absurd.
    Source: diffusers FluxTransformer2DModel, SD3Transformer2DModel, DiTTransformer2DModel.
    """
    num_heads, head_dim = config.count("num_attention_heads"), config.count("attention_head_dim")
    hidden = num_heads * head_dim
    num_double, num_single = config.count("num_layers"), config.optional_number("num_single_layers")
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


def _whisper_stem(config: ConfigFields, hidden: int, tokens: int) -> int:
    """Two convolutions of width 3 over the mel bands, and the positions of encoder and decoder."""
    mel_bands = config.optional_count("num_mel_bins") or 80
    positions = tokens + (config.optional_count("max_target_positions") or 0)
    return (3 * mel_bands + 3 * hidden + positions) * hidden


def speech_model(config: ConfigFields, name: str) -> Model:
    """A Whisper model: encoder layers over 1500 audio tokens, decoder layers with cross-attention.

    Raises: InputFileError: a layer or head count is missing or absurd.
    Source: transformers WhisperConfig.
    """
    hidden = config.count("d_model")
    encoder_heads = config.count("encoder_attention_heads")
    decoder_heads = config.count("decoder_attention_heads")
    tokens = config.optional_count("max_source_positions") or _WHISPER_ENCODER_TOKENS
    encoder = GroupedQueryAttention(
        num_heads=encoder_heads, num_kv_heads=encoder_heads, head_dim=hidden // encoder_heads, causal=False
    )
    decoder = GroupedQueryAttention(
        num_heads=decoder_heads, num_kv_heads=decoder_heads, head_dim=hidden // decoder_heads
    )
    cross = decoder.model_copy(update={"cross_attention_tokens": tokens})
    num_decoder = config.count("decoder_layers")
    wide = DenseFeedForward(intermediate_size=config.count("encoder_ffn_dim"), gated=False)
    narrow = DenseFeedForward(intermediate_size=config.count("decoder_ffn_dim"), gated=False)
    return Model(
        id=name.lower(),
        name=name,
        family="whisper",
        hidden_size=hidden,
        vocab_size=config.count("vocab_size"),
        tied_embeddings=True,
        layers=(
            LayerGroup(count=config.count("encoder_layers"), mixer=encoder, feed_forward=wide),
            LayerGroup(count=num_decoder, mixer=cross),
            LayerGroup(count=num_decoder, mixer=decoder, feed_forward=narrow),
        ),
        max_context_tokens=config.optional_count("max_target_positions"),
        extra_parameters=float(_whisper_stem(config, hidden, tokens)),
        workload="speech",
        sources=(Source(kind="derived", title="local config.json", where="config.json"),),
    )

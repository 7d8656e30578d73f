"""Readers of models with an encoder and a decoder from their config.json: Whisper and the T5 family."""

from collections.abc import Callable, Mapping
from typing import Final

from advisor.catalog.hf.fields import ConfigFields
from advisor.catalog.schema import DenseFeedForward, GroupedQueryAttention, LayerGroup, Model, Source
from advisor.catalog.schema.model import CrossAttention

_WHISPER_ENCODER_TOKENS: Final = 1500
"""Number of audio tokens of Whisper's encoder: 30 s of audio at 50 frames per second, whatever the content."""


def _whisper_stem(config: ConfigFields, hidden: int, tokens: int) -> int:
    """Number of parameters of two convolutions of width 3 over the mel bands, and of the positions of encoder and
    decoder [count]."""
    mel_bands = config.optional_count("num_mel_bins") or 80
    positions = tokens + (config.optional_count("max_target_positions") or 0)
    return (3 * mel_bands + 3 * hidden + positions) * hidden


def speech_model(config: ConfigFields, name: str) -> Model:
    """Return a Whisper model: encoder layers over 1500 audio tokens, decoder layers with cross-attention.

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
    cross = CrossAttention(num_heads=decoder_heads, head_dim=hidden // decoder_heads, source_tokens=tokens)
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


def text_to_text_model(config: ConfigFields, name: str) -> Model:
    """Return a T5 model: an encoder reads the prompt, a decoder with cross-attention writes.

    Assumes: embeddings are tied if the file does not state it, as in the class; the relative positions (32 buckets a
      head)
    are left out.
    Raises: InputFileError: a layer or head count is missing or absurd.
    Source: transformers T5Config.
    """
    hidden = config.count("d_model")
    heads = config.count("num_heads")
    head_dim = config.count("d_kv")
    reading = GroupedQueryAttention(num_heads=heads, num_kv_heads=heads, head_dim=head_dim, causal=False)
    writing = reading.model_copy(update={"causal": True})
    gated = config.text("feed_forward_proj").startswith("gated")
    part = DenseFeedForward(intermediate_size=config.count("d_ff"), gated=gated)
    num_encoder = config.count("num_layers")
    num_decoder = config.optional_count("num_decoder_layers") or num_encoder
    return Model(
        id=name.lower(),
        name=name,
        family=config.text("model_type"),
        hidden_size=hidden,
        vocab_size=config.count("vocab_size"),
        tied_embeddings=config.values.get("tie_word_embeddings") is not False,
        layers=(
            LayerGroup(count=num_encoder, mixer=reading, feed_forward=part),
            LayerGroup(count=num_decoder, mixer=CrossAttention(num_heads=heads, head_dim=head_dim)),
            LayerGroup(count=num_decoder, mixer=writing, feed_forward=part),
        ),
        max_context_tokens=config.optional_count("n_positions"),
        sources=(Source(kind="derived", title="local config.json", where="config.json"),),
    )


READERS: Final[Mapping[str, Callable[[ConfigFields, str], Model]]] = {
    "whisper": speech_model,
    **dict.fromkeys(("t5", "mt5", "umt5"), text_to_text_model),
}
"""Reader of an encoder-decoder model, by model type."""

"""Vision and audio towers from the fields of a config.json: parameters that an engine loads with the language model."""

from typing import Final

from advisor.catalog.hf.fields import ConfigFields
from advisor.catalog.schema import VisionTower

_TWO_LAYER_PROJECTORS: Final = (
    "llava",
    "llava_next",
    "llava_onevision",
    "internvl",
    "internvl_chat",
    "mistral3",
    "aya_vision",
    "cohere2_vision",
    "llava_next_video",
)
"""Model types whose projector has two layers: from the tower into the hidden size, and within it."""
_WIDTH: Final = ("embed_dim", "hidden_size", "vt_hidden_size", "width")
_COLOURS: Final = 3
_ASPECT_RATIOS: Final = 8
"""Shapes in which tiles of an image of Llama 3.2 are laid out (its preprocessor)."""
_MOBILE_NET: Final = {"mobilenetv5_300m_enc": 294.13e6}
"""Parameters of towers that the file names without their shape. Source: timm, counted by its own class."""
_AUDIO_VALUES: Final = 24.25
"""Weights of one conformer layer of Gemma 3n's audio tower over its width squared: two MLPs of four times the width,
attention with relative positions, and a convolution."""


def tower_of(config: ConfigFields, hidden: int) -> VisionTower | None:
    """Return the towers that a multimodal model loads besides its language model; None if it has none.

    Source: classes of the transformers library; tests hold each kind to the count of its own class.
    """
    audio = _audio_parameters(config, hidden)
    vision = config.section("vision_config")
    if vision is None:
        return VisionTower(parameters=audio) if audio else None
    tokens = config.optional_count("vision_soft_tokens_per_image", "mm_tokens_per_image")
    named = _MOBILE_NET.get(vision.text("architecture"))
    if named is not None:
        width = vision.optional_number("hidden_size")
        return VisionTower(parameters=named + width * hidden + audio, tokens_per_image=tokens)
    parameters = _tower_parameters(config, vision, hidden)
    return VisionTower(
        parameters=(parameters or 0.0) + audio,
        tokens_per_image=tokens,
        family=vision.text("model_type"),
        hidden_size=vision.optional_count(*_WIDTH),
    )


def _tower_parameters(config: ConfigFields, vision: ConfigFields, hidden: int) -> float | None:
    """Number of parameters of an image encoder with its projector [count]; None if the file does not give its size."""
    width = vision.optional_count(*_WIDTH)
    depth = vision.optional_count("depth", "num_hidden_layers", "vt_num_hidden_layers", "layers")
    if width is None or depth is None:
        return None
    family = vision.text("model_type") or config.text("model_type")
    depth += vision.optional_number("num_global_layers")
    inner = vision.optional_count("intermediate_size", "vt_intermediate_size")
    if inner is None or vision.has("embed_dim", "mlp_ratio"):
        ratio = vision.values.get("mlp_ratio")
        inner = int(width * ratio) if isinstance(ratio, int | float) and 1 <= ratio <= 16 else 4 * width
    merger_inner = 0
    out = vision.optional_count("out_hidden_size") or hidden
    if family.startswith(
        "glm4v"
    ):  # blocks are as wide inside as the output, and the merger has the inner width
        inner, merger_inner = out, inner
    is_gated = family.startswith(("pixtral", "qwen2_5_vl", "glm4v")) or vision.text("hidden_act") == "silu"
    layers = depth * (4 * width**2 + (3 if is_gated else 2) * width * inner)
    patch = _side(vision, "patch_size") or _side(vision, "spatial_patch_size")
    frames = vision.optional_count("temporal_patch_size") or 1
    embedding = _COLOURS * patch**2 * frames * width + _position_values(vision, width, patch)
    return float(
        layers + embedding + _projector_values(config, vision, family, width, hidden, out, merger_inner)
    )


def _position_values(vision: ConfigFields, width: int, patch: int) -> int:
    """Number of learned positions times the width; rotary towers have none."""
    positions = vision.optional_number("num_position_embeddings")
    size = _side(vision, "image_size")
    if not positions and size and patch and "qwen" not in vision.text("model_type"):
        positions = (size // patch) ** 2
    if vision.has("max_num_tiles"):  # Llama 3.2: positions of every tile in every aspect ratio
        return (_ASPECT_RATIOS + 1) * vision.count("max_num_tiles") * (positions + 1) * width
    return 0 if vision.text("model_type") == "pixtral" else positions * width


def _projector_values(
    config: ConfigFields,
    vision: ConfigFields,
    family: str,
    width: int,
    hidden: int,
    out: int,
    merger_inner: int,
) -> int:
    merge = vision.optional_count("spatial_merge_size") or _merge_of(vision)
    output = vision.optional_number("vision_output_dim")
    if family.startswith("llama4") and output:
        shuffled = vision.count("projector_input_dim")
        inner = vision.count("intermediate_size")
        return inner * shuffled + shuffled * vision.count("projector_output_dim") + output * hidden
    if output:  # Llama 3.2: features of several layers side by side
        return output * hidden
    if family.startswith("glm4v"):
        return merge**2 * width * out + out**2 + 3 * out * merger_inner
    if family.startswith(("step", "perception")):  # two strided convolutions
        return 9 * (width * 2 * width + 2 * width * 4 * width) + 4 * width * hidden
    top = config.text("model_type")
    if top == "mistral3":
        spatial = config.optional_count("spatial_merge_size") or 2
        return spatial**2 * width**2 + width * hidden + hidden**2
    if top == "aya_vision":  # a gated projector over patches of two by two
        inner = config.optional_count("alignment_intermediate_size") or hidden
        return 4 * width * inner + inner // 2 * hidden
    if top in _TWO_LAYER_PROJECTORS:
        shuffle = 2 if top.startswith("internvl") else 1
        return shuffle**2 * width * hidden + hidden**2
    if merge == 1:
        return width * hidden
    merged = merge**2 * width
    target = vision.optional_count("hidden_size") or out if vision.has("embed_dim") else out
    mergers = 1 + len(vision.sequence("deepstack_visual_indexes") or ())
    return mergers * (merged**2 + merged * target)


def _side(vision: ConfigFields, name: str) -> int:
    """Number of pixels of one side, which may be given as a pair; 0 if it is not given."""
    pair = vision.sequence(name)
    if pair is not None:
        return ConfigFields({name: pair[0] if pair else None}, vision.file, vision.prefix).optional_number(
            name
        )
    return vision.optional_number(name)


def _merge_of(vision: ConfigFields) -> int:
    kernel = vision.sequence("merge_kernel_size")
    return kernel[0] if kernel and isinstance(kernel[0], int) and 1 <= kernel[0] <= 8 else 1


def _audio_parameters(config: ConfigFields, hidden: int) -> float:
    """Number of parameters of a conformer for audio [count]; 0 without one."""
    audio = config.section("audio_config")
    if audio is None or not audio.text("model_type").startswith(("gemma3n", "gemma4")):
        return 0.0
    width = audio.optional_number("hidden_size")
    depth = audio.optional_number("conf_num_hidden_layers", "num_hidden_layers")
    return float(depth * _AUDIO_VALUES * width**2 + width * hidden)

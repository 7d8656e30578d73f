"""Rules of a checkpoint's quantisation: the storage of each module, from config.json and hf_quant_config.json."""

import fnmatch
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from advisor.catalog.dtypes import EXL3_DTYPES, bytes_per_element, grouped_bits
from advisor.catalog.hf.fields import ConfigFields
from advisor.catalog.hf.modules import FUSED, PREFIXES, canonical
from advisor.catalog.units import BITS_PER_BYTE

WIDE_BITS: Final = 16.0
_SCALE_BITS: Final = 16.0
_BLOCK_SCALE_BITS: Final = 32.0
_FP4_GROUPS: Final = {"nvfp4": 16, "mxfp4": 32}
_MX_GROUP: Final = 32
_WIDEST_FOUR_BIT: Final = 4
"""Widest integers that kernels of 4 bits multiply [bits]; wider ones take kernels of 8 bits."""
_OWN_FILES: Final = ("exl2", "exl3")
"""Methods whose files no other program loads."""
_LEAST_BITS: Final = 1
_MOST_BITS: Final = 16


class ModuleFormat(NamedTuple):
    """Format of one module: the kernels that multiply it, and its size."""

    dtype: str
    bits: float
    """Bits per weight, with scales and zero points."""
    weight_only: bool = False
    """Whether activations keep 16 bits although the format has kernels of its own width."""
    blockwise: bool = False
    """Whether fp8 scales cover blocks of weights."""
    matrix_bits: float = 0.0
    """Bits that each matrix stores besides its weights: codebooks."""


class Rules(NamedTuple):
    """Storage of every module of a checkpoint."""

    plain: ModuleFormat
    """Storage of modules that nothing quantises."""
    default: ModuleFormat
    """Storage of matrices in layers that no other rule names."""
    experts: ModuleFormat | None = None
    """Storage of routed experts if the config names another one for them."""
    named: Callable[[str], ModuleFormat | None] = lambda name: None
    """Storage of a module that the config names; None if it names none."""
    excluded: Callable[[str], bool] = lambda name: False
    """Whether the config lists a module among those that stay as they are."""
    tables: bool = False
    """Whether embedding and head are quantised like the matrices in layers (MLX)."""
    head: ModuleFormat | None = None
    """Storage of the output head if the method quantises it; None: 16 bits."""
    files: str = ""
    """Format of files that only certain engines load: mlx, exl2, exl3; empty for others."""

    def storage_of(self, part: str, names: tuple[str, ...]) -> ModuleFormat:
        """Return the storage of a matrix that goes by any of these names."""
        for name in names:
            found = self.named(name)
            if found is not None:
                return found
        if any(self.excluded(name) for name in names):
            return self.plain
        if part in ("embedding", "head") and not self.tables:
            return (self.head or self.plain) if part == "head" else self.plain
        return self.experts if part == "experts" and self.experts is not None else self.default


def rules_of(quantization: ConfigFields, plain: str, expert_dtype: str = "") -> Rules:
    """Return the rules that a quantization_config states; `plain` is the format of what it leaves alone.

    Raises: InputFileError: the method, algorithm or a width is unknown; names the field.
    Source: field names as written by transformers, compressed-tensors, GPTQModel, AutoAWQ, AutoRound, ModelOpt, Quark,
        bitsandbytes, TorchAO, MLX-LM and exllamav3.
    """
    method = quantization.text("quant_method").lower().replace("_", "-")
    wide = ModuleFormat(plain, 8.0 * bytes_per_element(plain))
    reader = _METHODS.get(method)
    if reader is None and quantization.has("config_groups"):
        reader = _read_compressed
    if reader is None and quantization.has("quant_algo"):
        reader = _modelopt
    if reader is None and not method and quantization.has("bits", "q_group_size", "group_size"):
        reader = _mlx if quantization.has("mode") or not quantization.has("zero_point") else _integers
    if reader is None:
        quantization.fail(
            "quant_method",
            f"is '{method}', which is not known",
            fix=f"use one of {', '.join(sorted(_METHODS))}",
            hint="remove quantization_config to have the model read as bf16",
        )
    rules = reader(quantization, wide)
    if method in _OWN_FILES:
        rules = rules._replace(files=method)
    if expert_dtype == "fp4":  # DeepSeek V4: experts in mxfp4, the rest as the config says
        rules = rules._replace(experts=ModuleFormat("mxfp4", 8.0 * bytes_per_element("mxfp4")))
    return rules


def algorithm_storage(config: ConfigFields, algorithm: str, group_size: int | None = None) -> ModuleFormat:
    """Return the storage of a ModelOpt algorithm.

    Raises: InputFileError: the algorithm is unknown.
    Source: NVIDIA Model-Optimizer, quant_algo as written into hf_quant_config.json.
    """
    name = algorithm.upper()
    if "MXFP8" in name:
        return ModuleFormat("fp8", grouped_bits(8.0, _MX_GROUP, 8.0))
    if "NVFP4" in name:
        return ModuleFormat(
            "nvfp4", grouped_bits(4.0, group_size or 16, 8.0), weight_only=name.startswith("W4A16")
        )
    if "MXFP4" in name:
        return ModuleFormat("mxfp4", grouped_bits(4.0, _MX_GROUP, 8.0))
    if "W4" in name or "INT4" in name:
        return ModuleFormat("int4", grouped_bits(4.0, group_size or 128, _SCALE_BITS))
    if "FP8" in name:
        blockwise = "PB" in name or "BLOCK" in name
        return ModuleFormat("fp8", 8.0, weight_only="WO" in name.split("_"), blockwise=blockwise)
    if "INT8" in name or "W8" in name:
        return ModuleFormat("int8", 8.0, weight_only=name.startswith("W8A16"))
    return config.fail("quant_algo", f"is '{algorithm}', which is not known")


def declared_cache(quantization: ConfigFields) -> str | None:
    """Return the format of the KV cache that a quantisation declares, or None.

    Source: kv_cache_scheme of compressed-tensors; kv_cache_quant_algo of ModelOpt; outputs of the key and value
        projections in Quark's kv_cache_quant_config, or in the layers that its kv_cache_group names.
    """
    if quantization.text("quant_method").lower() == "quark":
        return _quark_cache(quantization)
    said = quantization.values.get("kv_cache_scheme") or quantization.values.get("kv_cache_quant_algo")
    if isinstance(said, dict):
        bits = said.get("num_bits")
        if bits == _FP8_BITS:
            return "fp8" if said.get("type") == "float" else "int8"
        return "nvfp4" if bits == _FP4_BITS and said.get("type") == "float" else None
    if isinstance(said, str):
        name = said.upper()
        return next((dtype for word, dtype in _CACHES if word in name), None)
    return None


def _quark_cache(quantization: ConfigFields) -> str | None:
    """Return the format in which Quark stores keys and values, or None."""
    export = quantization.section("export") or quantization
    groups = export.sequence("kv_cache_group") or quantization.sequence("kv_cache_group") or ()
    for name in ("kv_cache_quant_config", "layer_quant_config"):
        layers = quantization.values.get(name)
        for layer, said in layers.items() if isinstance(layers, dict) else ():
            is_cache = name == "kv_cache_quant_config" or layer in groups
            outputs = said.get("output_tensors") if is_cache and isinstance(said, dict) else None
            dtype = str(outputs.get("dtype", "") if isinstance(outputs, dict) else "").lower()
            if dtype:
                return "fp8" if dtype.startswith("fp8") else "int8" if dtype.endswith("int8") else None
    return None


_EXPRESSION_SIGNS: Final = frozenset("*+?^$()[]{}|\\")
"""Signs by which the name of a layer is a regular expression (vLLM, quantization/inc.py)."""
_FP8_BITS: Final = 8
_FP4_BITS: Final = 4
_CACHES: Final = (("NVFP4", "nvfp4"), ("FP8", "fp8"), ("INT8", "int8"))


def _matching(patterns: Iterable[object]) -> Callable[[str], bool]:
    """Return whether a module's name is under one of the patterns.

    A pattern is a regular expression behind `re:`, a name with wildcards, or a part of a path between dots.
    """
    texts = [str(pattern) for pattern in patterns]
    spelt = {word for word in FUSED if any(word in text for text in texts)}
    general = {text: None for text in texts if text.startswith("re:") or any(sign in text for sign in "*?[")}
    paths = {canonical(text) for text in texts if text and text not in general}
    first_words = {path.partition(".")[0] for path in paths}
    of_a_layer = _describing(text for text in general if _TELLS_LAYERS.search(text))
    of_all_layers = cache(_describing(text for text in general if not _TELLS_LAYERS.search(text)))

    @cache
    def matches(name: str) -> bool:
        words = name.split(".")
        for start, word in enumerate(words):
            if word in first_words and any(
                ".".join(words[start:end]) in paths for end in range(start + 1, len(words) + 1)
            ):
                return True
        if words[-1] in FUSED and words[-1] not in spelt:
            return False  # `.*v_proj` means no query, although engines keep both in one `qkv_proj`
        if words[0] == "layers":
            words[1] = "0" * len(words[1])
        return of_all_layers(".".join(words)) or of_a_layer(name)

    return matches


def _describing(texts: Iterable[str]) -> Callable[[str], bool]:
    """Return whether a name is described by one of the regular expressions and names with wildcards."""
    globs: list[str] = []
    expressions: list[_Expression] = []
    for text in texts:
        if not text.startswith("re:"):
            globs.append(fnmatch.translate(canonical(text))[:-_ANCHOR_LENGTH])
        elif (found := _compile(text[3:])) is not None:
            expressions.append(_Expression(found, _first_word(text[3:])))
    # Dots and words may stand before and behind what a wildcard pattern describes.
    joined = re.compile(rf"(?s:.*\.)?(?:{'|'.join(globs)})(?s:\..*)?\Z") if globs else None

    def describes(name: str) -> bool:
        if joined is not None and joined.match(name):
            return True
        return any(one.describes(name) for one in expressions)

    return describes


class _Expression(NamedTuple):
    """A regular expression of a config, and the word with which it begins after any characters, or nothing."""

    pattern: re.Pattern[str]
    first_word: str

    def describes(self, name: str) -> bool:
        """Return whether the expression matches a name behind one of the words that files put in front.

        What begins with any characters and a word that no prefix has matches behind all prefixes or behind none.
        """
        if self.first_word and not name.startswith(self.first_word):
            return self.pattern.match(name) is not None
        return any(self.pattern.match(prefix + name) for prefix in PREFIXES)


def _first_word(expression: str) -> str:
    """Return the word that follows any characters at the start of an expression; "" if there is none, if a prefix has
    it, or if the expression has alternatives outside of brackets."""
    found = _FREE_START.match(expression)
    is_one = "|" not in _BRACKETS.sub("", expression)
    word = found[1] if found and is_one else ""
    return "" if any(word in prefix for prefix in PREFIXES) else word


def _compile(expression: str) -> re.Pattern[str] | None:
    """Return a regular expression of a config; None if it is none, or could stall the reader."""
    repeats = sum(expression.count(sign) for sign in "*+{")
    if len(expression) > _LONGEST_EXPRESSION or repeats > _MOST_REPEATS or re.search(r"\)[*+{]", expression):
        return None
    try:
        return re.compile(expression)
    except (re.error, RecursionError, OverflowError):
        return None


_ANCHOR_LENGTH: Final = 2
"""Characters of the anchor at the end of what `fnmatch.translate` returns, `\\Z` or `\\z`."""
_FREE_START: Final = re.compile(r"\.\*\\?\.?(\w+)(?![\w*+?{])")
_BRACKETS: Final = re.compile(r"\([^()]*\)")
_TELLS_LAYERS: Final = re.compile(r"[0-9]|\(\?P=")
"""Parts of a pattern by which numbers of equally many digits may differ for it: without any, it holds for all layers
or for none."""
_LONGEST_EXPRESSION: Final = 2_000
"""Longest regular expression of a config that is tried [characters]; published ones have up to 200."""
_MOST_REPEATS: Final = 3
"""Most repetitions in an expression that is tried, and none of a group: more could take exponential time."""


def _mapping(formats: Mapping[str, ModuleFormat]) -> Callable[[str], ModuleFormat | None]:
    """Return the storage of a module that is named, or that is inside of one that is named."""
    known = {canonical(name): storage for name, storage in formats.items()}

    def find(name: str) -> ModuleFormat | None:
        words = name.split(".")
        for end in range(len(words), 0, -1):
            found = known.get(".".join(words[:end]))
            if found is not None:
                return found
        return None

    return find


def _skips(quantization: ConfigFields) -> Callable[[str], bool]:
    return _matching(
        quantization.sequence(
            "modules_to_not_convert",
            "ignore",
            "exclude_modules",
            "exclude",
            "ignored_layers",
            "llm_int8_skip_modules",
            "modules_to_exclude",
        )
        or ()
    )


def _width(quantization: ConfigFields, *names: str) -> int:
    bits = quantization.count(*names)
    if not _LEAST_BITS <= bits <= _MOST_BITS:
        quantization.fail(names[0], f"is {bits}, not a width from {_LEAST_BITS} to {_MOST_BITS} bits")
    return bits


def integers(
    bits: int, group_size: int | None, *, zero_points: bool, scale_bits: float = _SCALE_BITS
) -> ModuleFormat:
    """Return the storage of grouped integers that are multiplied in 16 bits; without groups, a scale per channel.

    Source: layout of AWQ, GPTQ, AutoRound and MLX files.
    """
    if bits >= WIDE_BITS:
        return ModuleFormat("bf16", WIDE_BITS)
    dtype = "int4" if bits <= _WIDEST_FOUR_BIT else "int8"
    if group_size is None or group_size <= 0:
        return ModuleFormat(dtype, float(bits), weight_only=True)
    return ModuleFormat(
        dtype, grouped_bits(bits, group_size, scale_bits, bits if zero_points else 0.0), weight_only=True
    )


def _fp8(quantization: ConfigFields, wide: ModuleFormat) -> Rules:
    block = quantization.sequence("weight_block_size")
    default = ModuleFormat("fp8", 8.0)
    if block and all(isinstance(size, int) and size > 0 for size in block):
        area = 1
        for size in block:
            area *= size
        default = ModuleFormat("fp8", grouped_bits(8.0, area, _BLOCK_SCALE_BITS), blockwise=True)
    # ModelOpt's NVFP4 experts on top of a block-fp8 checkpoint: its `ignore` says what stays fp8.
    skipped = _matching(
        quantization.sequence("modules_to_not_convert")
        or (
            ()
            if quantization.has("moe_quant_algo")
            else quantization.sequence("ignored_layers", "ignore") or ()
        )
    )
    return Rules(wide, default, named=_quantized_layers(quantization), excluded=skipped)


def _quantized_layers(quantization: ConfigFields) -> Callable[[str], ModuleFormat | None]:
    layers = quantization.values.get("quantized_layers")
    if not isinstance(layers, dict):
        return lambda name: None
    found: dict[str, ModuleFormat] = {}
    for name, said in layers.items():
        fields = said if isinstance(said, dict) else {}
        size = fields.get("group_size")
        found[str(name)] = algorithm_storage(
            quantization, str(fields.get("quant_algo")), size if isinstance(size, int) and size > 0 else None
        )
    return _mapping(found)


def _modelopt(quantization: ConfigFields, wide: ModuleFormat) -> Rules:
    algorithm = quantization.text("quant_algo")
    if not algorithm:
        quantization.fail("quant_algo", "is missing", fix="take the config.json of the checkpoint itself")
    named = _quantized_layers(quantization)
    if algorithm.upper() == "MIXED_PRECISION":
        if not isinstance(quantization.values.get("quantized_layers"), dict):
            quantization.fail("quantized_layers", "is missing: it holds the format of each layer")
        return Rules(wide, wide, named=named, excluded=_skips(quantization))
    default = algorithm_storage(quantization, algorithm, quantization.optional_count("group_size"))
    return Rules(wide, default, named=named, excluded=_skips(quantization))


def _read_compressed(quantization: ConfigFields, wide: ModuleFormat) -> Rules:
    groups = quantization.values.get("config_groups")
    if groups == {} and isinstance(quantization.values.get("kv_cache_scheme"), dict):
        return Rules(wide, wide)  # the cache alone is quantised
    if not isinstance(groups, dict) or not groups:
        if quantization.has("quant_algo"):
            return _modelopt(quantization, wide)
        quantization.fail("config_groups", "is missing", fix="take the config.json of the checkpoint itself")
    if quantization.text("quant_algo").upper() == "MIXED_PRECISION":
        return _modelopt(quantization, wide)
    default: ModuleFormat | None = None
    named: list[tuple[Callable[[str], bool], ModuleFormat]] = []
    for key, group in groups.items():
        fields = ConfigFields(
            group if isinstance(group, dict) else {},
            quantization.file,
            f"{quantization.prefix}config_groups.{key}.",
        )
        storage = _group_storage(quantization, fields)
        targets = [str(target) for target in fields.sequence("targets") or ("Linear",)]
        chosen = [target for target in targets if "." in target or target.startswith("re:") or "_" in target]
        if chosen:
            named.append((_matching(chosen), storage))
        if len(chosen) < len(targets):
            default = storage
    excluded = _skips(quantization)

    def by_name(name: str) -> ModuleFormat | None:
        if excluded(name):
            return None
        return next((storage for matches, storage in named if matches(name)), None)

    # A scheme for every linear layer covers the head too, unless the list leaves it out.
    return Rules(wide, default or wide, named=by_name, excluded=excluded, head=default)


def _group_storage(quantization: ConfigFields, group: ConfigFields) -> ModuleFormat:
    weights = group.section("weights")
    if weights is None:
        group.fail("weights", "is missing")
    layout = f"{quantization.text('format')} {group.text('format')}".lower()
    if "marlin-24" in layout or (
        quantization.section("sparsity_config", "sparsity") is not None and "24" in layout
    ):
        group.fail("format", "is 2:4 sparse, whose size is not known", fix="take a dense checkpoint")
    bits = _width(weights, "num_bits")
    inputs = group.section("input_activations")
    weight_only = inputs is None
    size = weights.values.get("group_size")
    grouped = size if isinstance(size, int) and size > 0 else None
    if weights.text("type").lower() == "float":
        if bits == _FP8_BITS:
            if "mxfp8" in layout:
                return ModuleFormat("fp8", grouped_bits(8.0, _MX_GROUP, 8.0), weight_only)
            blockwise = weights.text("strategy") == "block"
            return ModuleFormat("fp8", 8.0, weight_only, blockwise)
        if bits == 6:
            return ModuleFormat("fp6", grouped_bits(6.0, _MX_GROUP, 8.0), weight_only)
        if bits != _FP4_BITS:
            weights.fail("num_bits", f"is {bits}, not a width of floating-point weights (4, 6, 8)")
        dtype = (
            "nvfp4"
            if "nvfp4" in layout or ("mxfp4" not in layout and grouped == _FP4_GROUPS["nvfp4"])
            else "mxfp4"
        )
        return ModuleFormat(dtype, grouped_bits(4.0, grouped or _FP4_GROUPS[dtype], 8.0), weight_only)
    found = integers(bits, grouped, zero_points=weights.values.get("symmetric") is False)
    return found._replace(weight_only=weight_only)


def _integers(quantization: ConfigFields, wide: ModuleFormat) -> Rules:
    """Return the rules of AWQ, GPTQ and AutoRound, whose groups have scales and zero points."""
    bits = _width(quantization, "bits", "w_bit", "num_bits", "weight_bits", "nbits")
    size = quantization.values.get("group_size", quantization.values.get("q_group_size"))
    grouped = size if isinstance(size, int) and not isinstance(size, bool) else None

    number = quantization.text("data_type").lower().replace("_", "")  # AutoRound: int, mx_fp, nv_fp, fp8

    def storage(width: int, groups: int | None) -> ModuleFormat:
        if width == _FP4_BITS and number.startswith(("mxfp", "nvfp")):
            dtype = f"{number[:4]}4"
            return ModuleFormat(dtype, grouped_bits(4.0, groups or _FP4_GROUPS[dtype], 8.0))
        if width == _FP8_BITS and "fp" in number:
            size = _MX_GROUP if number.startswith("mx") else None
            return ModuleFormat("fp8", grouped_bits(8.0, size, 8.0) if size else 8.0)
        return integers(width, groups, zero_points=True)

    named: dict[str, ModuleFormat] = {}
    patterns: list[tuple[Callable[[str], bool], ModuleFormat]] = []
    extra = quantization.values.get("extra_config")
    for name, said in extra.items() if isinstance(extra, dict) else ():
        if isinstance(said, dict) and isinstance(said.get("bits"), int):
            own = said.get("group_size")
            chosen = storage(said["bits"], own if isinstance(own, int) else grouped)
            if _EXPRESSION_SIGNS.isdisjoint(str(name)):
                named[str(name)] = chosen
            else:  # AutoRound names layers in full, or by regular expressions
                patterns.append((_matching((f"re:{name}",)), chosen))
    dynamic = quantization.values.get("dynamic")
    left = list(quantization.sequence("modules_to_not_convert", "ignored_layers") or ())
    for rule, said in dynamic.items() if isinstance(dynamic, dict) else ():
        sign, _, expression = str(rule).partition(":")
        if sign == "-":
            left.append(f"re:{expression}")
        elif isinstance(said, dict) and isinstance(said.get("bits"), int):
            own = said.get("group_size")
            chosen = storage(said["bits"], own if isinstance(own, int) else grouped)
            patterns.append((_matching((f"re:{expression or rule}",)), chosen))
    by_path = _mapping(named)
    by_pattern = _matching_first(patterns)

    def by_name(name: str) -> ModuleFormat | None:
        found = by_path(name)
        if found is not None:
            return found
        return by_pattern(name)

    default = storage(bits, grouped)
    head = default if quantization.flag("lm_head", "quant_lm_head") else None
    return Rules(wide, default, named=by_name, excluded=_matching(left), head=head)


def _mlx(quantization: ConfigFields, wide: ModuleFormat) -> Rules:
    def storage(values: Mapping[str, Any]) -> ModuleFormat:
        fields = ConfigFields({**quantization.values, **values}, quantization.file, quantization.prefix)
        mode = fields.text("mode")
        if mode in ("mxfp4", "nvfp4"):
            return ModuleFormat(mode, grouped_bits(4.0, _FP4_GROUPS[mode], 8.0), weight_only=True)
        if mode == "mxfp8":
            return ModuleFormat("fp8", grouped_bits(8.0, _MX_GROUP, 8.0), weight_only=True)
        bits = _width(fields, "bits")
        # A scale and a bias of 16 bits for each group.
        size = fields.optional_count("group_size") or 64
        return integers(bits, size, zero_points=False, scale_bits=2.0 * _SCALE_BITS)

    named: dict[str, ModuleFormat] = {}
    left = []
    for name, said in quantization.values.items():
        if said is False:
            left.append(name)
        elif isinstance(said, dict) and isinstance(said.get("bits"), int):
            named[name] = storage(said)
    excluded = _matching(left)
    return Rules(wide, storage({}), named=_mapping(named), excluded=excluded, tables=True, files="mlx")


def _bitsandbytes(quantization: ConfigFields, wide: ModuleFormat) -> Rules:
    if quantization.flag("load_in_4bit", "_load_in_4bit"):
        double = quantization.flag("bnb_4bit_use_double_quant")
        bits = bytes_per_element("nf4") * 8.0 if double else grouped_bits(4.0, 64, 32.0)
        default = ModuleFormat("nf4", bits)
    else:
        default = ModuleFormat("int8", 8.0, weight_only=True)
    return Rules(wide, default, excluded=_skips(quantization))


def _one_format(dtype: str, *, weight_only: bool = False) -> Callable[[ConfigFields, ModuleFormat], Rules]:
    def rules(quantization: ConfigFields, wide: ModuleFormat) -> Rules:
        default = ModuleFormat(dtype, 8.0 * bytes_per_element(dtype), weight_only)
        return Rules(wide, default, excluded=_skips(quantization))

    return rules


def _experts_only(quantization: ConfigFields, wide: ModuleFormat) -> Rules:
    return Rules(wide, wide, experts=ModuleFormat("int8", 8.0, weight_only=True))


def _torchao(quantization: ConfigFields, wide: ModuleFormat) -> Rules:
    said = quantization.values.get("quant_type")
    found = said.get("default") if isinstance(said, dict) and "default" in said else said
    data = found.get("_data") if isinstance(found, dict) else None
    own = data.get("module_fqn_to_config", data.get("fqn_to_config")) if isinstance(data, dict) else None
    if not isinstance(own, dict):
        return Rules(wide, _torchao_storage(quantization, found), excluded=_skips(quantization))
    formats = {name: _torchao_storage(quantization, one) if one else wide for name, one in own.items()}
    default = formats.pop("_default", wide)
    named = _matching_first([(_matching((_torchao_pattern(name),)), one) for name, one in formats.items()])
    return Rules(wide, default, named=named, excluded=_skips(quantization))


def _torchao_pattern(name: str) -> str:
    """Return the pattern of a module's name, which torchao writes as a regular expression if it has such signs."""
    return f"re:{name.removeprefix('re:')}" if name.startswith("re:") or set(name) & set("*+[(|\\") else name


def _torchao_storage(quantization: ConfigFields, found: object) -> ModuleFormat:
    """Return the storage of one configuration of torchao, whose name states formats and whose data state groups."""
    name = str(found.get("_type", "") if isinstance(found, dict) else found).lower()
    data = found.get("_data") if isinstance(found, dict) else quantization.values.get("quant_type_kwargs")
    fields = data if isinstance(data, dict) else {}
    weight = fields.get("weight_dtype")
    if isinstance(weight, dict):
        weight = weight.get("_data")
    if isinstance(weight, str):  # Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig
        name = weight.lower()
    grains = fields.get("weight_granularity", fields.get("granularity"))
    inner = grains.get("_data") if isinstance(grains, dict) else None
    size = fields.get("group_size", inner.get("group_size") if isinstance(inner, dict) else None)
    width = re.match(r"(?:torch\.)?u?int([1-8])(?![0-9])", name) or re.search(
        r"int([48])weight", name.replace("_", "")
    )
    groups = size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None
    if "int4" in name or (width is not None and int(width[1]) < _FP8_BITS):
        bits = int(width[1]) if width is not None else _FP4_BITS
        grouped = groups or (None if isinstance(weight, str) else 128)
        return integers(bits, grouped, zero_points=False, scale_bits=2.0 * _SCALE_BITS)
    if "int8" in name:
        is_wide = "dynamic" not in name
        return ModuleFormat("int8", grouped_bits(8.0, groups, 2.0 * _SCALE_BITS) if groups else 8.0, is_wide)
    if "float8" in name or "fp8" in name:
        return ModuleFormat("fp8", 8.0, weight_only="weightonly" in name.replace("_", ""))
    return quantization.fail(
        "quant_type", f"is '{name}', which is not known", fix="int4, int8 or float8 of torchao"
    )


def _matching_first(
    patterns: list[tuple[Callable[[str], bool], ModuleFormat]],
) -> Callable[[str], ModuleFormat | None]:
    """Return the storage of the first pattern that a module's name fits."""
    return lambda name: next((found for matches, found in patterns if matches(name)), None)


def _quark(quantization: ConfigFields, wide: ModuleFormat) -> Rules:
    def storage(section: object) -> ModuleFormat:
        weight = section.get("weight") if isinstance(section, dict) else None
        if isinstance(weight, list):  # quantised in turn: the last format is stored
            weight = weight[-1] if weight else None
        name = str(weight.get("dtype", "") if isinstance(weight, dict) else "").lower()
        inputs = section.get("input_tensors") if isinstance(section, dict) else None
        if name.startswith("fp8"):
            return ModuleFormat("fp8", 8.0, weight_only=inputs is None)
        if name in ("fp4", "mxfp4", "mx"):
            return ModuleFormat("mxfp4", grouped_bits(4.0, _MX_GROUP, 8.0), weight_only=inputs is None)
        if name in ("int4", "uint4"):
            size = weight.get("group_size") if isinstance(weight, dict) else None
            return integers(4, size if isinstance(size, int) else None, zero_points=name == "uint4")
        if name in ("int8", "uint8"):
            return ModuleFormat("int8", 8.0, weight_only=inputs is None)
        return quantization.fail("global_quant_config", f"has weights of type '{name}', which is not known")

    default = storage(quantization.values.get("global_quant_config"))
    own = quantization.values.get("layer_quant_config")
    named = [
        (_matching((name,)), storage(section))
        for name, section in (own.items() if isinstance(own, dict) else ())
        if isinstance(section, dict)
    ]
    return Rules(
        wide,
        default,
        named=_matching_first(named),
        excluded=_skips(quantization),
    )


def _hqq(quantization: ConfigFields, wide: ModuleFormat) -> Rules:
    inner = quantization.section("quant_config")
    weights = (inner or quantization).section("weight_quant_params") or quantization
    size = weights.optional_count("group_size") or 64
    default = integers(
        _width(weights, "nbits", "bits"), size, zero_points=False, scale_bits=2.0 * _SCALE_BITS
    )
    return Rules(wide, default, excluded=_matching(quantization.sequence("skip_modules") or ()))


def exl_storage(bits: float) -> ModuleFormat:
    """Return the storage of matrices of a mean width in files of ExLlama: kernels of the nearest usual width."""
    usual = min(EXL3_DTYPES, key=lambda dtype: abs(BITS_PER_BYTE * bytes_per_element(dtype) - bits))
    return ModuleFormat(usual, bits)


def _exl(quantization: ConfigFields, wide: ModuleFormat) -> Rules:
    def storage(name: str, fallback: float | None = None) -> ModuleFormat:
        bits = quantization.values.get(name, fallback)
        if isinstance(bits, bool) or not isinstance(bits, int | float) or not 1.0 <= bits <= 8.0:
            quantization.fail(name, f"is {bits!r}, not an average width from 1 to 8 bits")
        return exl_storage(float(bits))

    return Rules(wide, storage("bits"), head=storage("head_bits", 6.0))


def codebook_storage(vector: int, *index_bits: int) -> ModuleFormat:
    """Return the storage of vectors of weights that are sums of entries of codebooks, one index for each codebook.

    bits = Σ index bits / vector; each matrix stores Σ 2^(index bits) entries of `vector` weights in 16 bits.

    Assumes: one group of codebooks a matrix, no outliers; scales of rows are left out (below 0.01 bits).
    Source: AQLM (arXiv:2401.06118, section 3); VPTQ (arXiv:2409.17066, section 3).
    """
    entries = sum(2.0**bits for bits in index_bits if bits)
    return ModuleFormat(
        "int4", sum(index_bits) / vector, weight_only=True, matrix_bits=entries * vector * WIDE_BITS
    )


WIDEST_INDEX: Final = 24
_LONGEST_VECTOR: Final = 256


def _aqlm(quantization: ConfigFields, wide: ModuleFormat) -> Rules:
    width = quantization.count("nbits_per_codebook")
    vector = quantization.count("in_group_size") * (quantization.optional_count("out_group_size") or 1)
    books = quantization.count("num_codebooks")
    if width > WIDEST_INDEX or books > _MOST_BITS or vector > _LONGEST_VECTOR:
        quantization.fail("nbits_per_codebook", f"is {width} for {books} codebooks of {vector} weights")
    skipped = quantization.sequence("linear_weights_not_to_quantize", "modules_to_not_convert") or ()
    left = [str(name).removesuffix(".weight") for name in skipped]
    return Rules(wide, codebook_storage(vector, *(width,) * books), excluded=_matching(left))


def _vptq(quantization: ConfigFields, wide: ModuleFormat) -> Rules:
    own = quantization.values.get("config_for_layers")
    if not isinstance(own, dict) or not own:
        quantization.fail("config_for_layers", "is missing: it holds the codebooks of each layer")
    shared = quantization.values.get("shared_layer_config")
    shared = shared if isinstance(shared, dict) else {}

    def storage(name: str, said: object) -> ModuleFormat:
        fields = {**shared.get(name.rpartition(".")[2], {}), **(said if isinstance(said, dict) else {})}

        def last(field: str) -> int:  # the first entry is that of outliers, -1 without
            found = fields.get(field)
            value = found[-1] if isinstance(found, list) and found else None
            return value if isinstance(value, int) and not isinstance(value, bool) else 0

        vector = last("vector_lens")
        main = last("num_centroids")
        residual = last("num_res_centroids")
        if not 0 < vector <= _LONGEST_VECTOR or not 1 < main <= 2**WIDEST_INDEX or residual > 2**WIDEST_INDEX:
            quantization.fail(
                f"config_for_layers.{name}", f"has {main} centroids of vectors of {vector} weights"
            )
        bits = [math.ceil(math.log2(count)) for count in (main, residual) if count > 1]
        return codebook_storage(vector, *bits)

    return Rules(
        wide, wide, named=_mapping({str(name): storage(str(name), said) for name, said in own.items()})
    )


def _higgs(quantization: ConfigFields, wide: ModuleFormat) -> Rules:
    size = quantization.optional_count("group_size") or 256
    default = integers(_width(quantization, "bits"), size, zero_points=False)
    return Rules(wide, default, excluded=_skips(quantization))


def _quanto(quantization: ConfigFields, wide: ModuleFormat) -> Rules:
    name = quantization.text("weights").lower()
    if name.startswith(("float8", "qfloat8")):
        default = ModuleFormat("fp8", 8.0, weight_only=True)
    elif name in ("int8", "qint8"):
        default = ModuleFormat("int8", 8.0, weight_only=True)
    elif name in ("int4", "qint4", "int2", "qint2"):
        default = integers(int(name[-1]), 128, zero_points=False, scale_bits=2.0 * _SCALE_BITS)
    else:
        quantization.fail(
            "weights", f"is '{name}', which is not known", fix="int2, int4, int8 or float8 of quanto"
        )
    return Rules(wide, default, excluded=_skips(quantization))


def _fp_quant(quantization: ConfigFields, wide: ModuleFormat) -> Rules:
    name = quantization.text("forward_dtype").lower()
    if name not in _FP4_GROUPS:
        quantization.fail("forward_dtype", f"is '{name}', not {' or '.join(_FP4_GROUPS)}")
    return _one_format(name)(quantization, wide)


def _bitnet(quantization: ConfigFields, wide: ModuleFormat) -> Rules:
    return Rules(wide, ModuleFormat("int4", 2.0, weight_only=True), excluded=_skips(quantization))


def _w4afp8(quantization: ConfigFields, wide: ModuleFormat) -> Rules:
    """Return the rules of SGLang's mixture: routed experts of 4 bits, other layers in fp8."""
    rules = _fp8(quantization, wide)
    return rules._replace(experts=integers(4, 128, zero_points=False))


_METHODS: Final[Mapping[str, Callable[[ConfigFields, ModuleFormat], Rules]]] = {
    "fp8": _fp8,
    "finegrained-fp8": _fp8,
    "fbgemm-fp8": _one_format("fp8"),
    "w8a8-fp8": _one_format("fp8"),
    "ptpc-fp8": _one_format("fp8"),
    "w8a8-int8": _one_format("int8"),
    "eetq": _one_format("int8", weight_only=True),
    "mxfp4": _one_format("mxfp4"),
    "nvfp4": _one_format("nvfp4"),
    "modelopt-fp4": _modelopt,
    "modelopt-mxfp8": _modelopt,
    "mxfp8": lambda quantization, wide: Rules(
        wide, ModuleFormat("fp8", grouped_bits(8.0, _MX_GROUP, 8.0)), excluded=_skips(quantization)
    ),
    "modelopt": _modelopt,
    "modelopt-mixed": _modelopt,
    "compressed-tensors": _read_compressed,
    "awq": _integers,
    "awq-marlin": _integers,
    "gptq": _integers,
    "gptq-marlin": _integers,
    "auto-round": _integers,
    "auto-round:auto-gptq": _integers,
    "auto-round:auto-awq": _integers,
    "intel/auto-round": _integers,
    "inc": _integers,
    "autoround": _integers,
    "bitsandbytes": _bitsandbytes,
    "torchao": _torchao,
    "quark": _quark,
    "hqq": _hqq,
    "exl2": _exl,
    "exl3": _exl,
    "aqlm": _aqlm,
    "vptq": _vptq,
    "higgs": _higgs,
    "quanto": _quanto,
    "fp-quant": _fp_quant,
    "bitnet": _bitnet,
    "w4afp8": _w4afp8,
    "moe-wna16": _integers,
    "experts-int8": _experts_only,
    "mlx": _mlx,
}
"""Reader of the rules, by quant_method."""

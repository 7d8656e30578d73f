"""One operator on the roofline: the shape as typed, and which operator a name stands for."""

import math
import re
from typing import Final

from advisor.ask.acts import option_of
from advisor.ask.measures import parse_bytes, parse_count
from advisor.ask.topology import group_of
from advisor.catalog import accelerators
from advisor.catalog.dtypes import known_dtype
from advisor.catalog.errors import AdvisorError, UnknownNameError
from advisor.catalog.resolve import near_misses
from advisor.catalog.schema import Calibration
from advisor.commands.roofline.operator_view import collective_answer, operator_answer
from advisor.commands.roofline.options import RooflineInput
from advisor.render.answer import Answer
from advisor.simulator.calibrated_device import calibrated_accelerator
from advisor.simulator.collectives.prediction import predict
from advisor.simulator.device import device_of
from advisor.simulator.single_operator import (
    OPERATOR_NAMES,
    OperatorName,
    OperatorQuestion,
    analyse_operator,
    misplaced_dimension,
    most_of,
    reordered_shape,
    shape_example,
    shape_names,
)

_COLLECTIVE: Final = "all-reduce"
_ALIASES: Final[dict[str, str]] = {
    "matmul": "gemm",
    "mm": "gemm",
    "linear": "gemm",
    "gemv": "gemm",
    "flash-attention": "attention",
    "sdpa": "attention",
    "prefill-attention": "attention",
    "attention-decode": "decode-attention",
    "attention-prefill": "attention",
    "layer-norm": "layernorm",
    "norm": "layernorm",
    "rms-norm": "rmsnorm",
    "swish": "silu",
    "feed-forward": "mlp",
    "ffn": "mlp",
    "lookup": "embedding",
    "allreduce": _COLLECTIVE,
    "all_reduce": _COLLECTIVE,
}
_NOT_MODELLED: Final[dict[str, str]] = {
    "conv": "gemm with rows = output pixels, columns = output channels, depth = input channels x kernel area",
    "conv2d": "gemm with rows = output pixels, columns = output channels, depth = input channels x kernel area",
    "convolution": "gemm with rows = output pixels, columns = output channels, depth = input channels x kernel area",
    "sort": "transpose, which moves every element once",
    "topk": "softmax, which reads every element once",
    "fft": "gemm",
    "dropout": "gelu, which reads and writes every element once",
    "scan": "advisor roofline --model mamba-2.8b, whose state-space scan is modelled",
}
"""Operators without a fitted kernel, and the nearest that has one."""
_MOST_ELEMENTS: Final = 1e18
_ACTS_FOR: Final[dict[str, tuple[str, ...]]] = {
    "kv_heads": ("attention", "decode-attention"),
    "causal": ("attention",),
    "tile": ("gemm",),
    "gpus": (_COLLECTIVE,),
    "dtype": OPERATOR_NAMES,
}
"""Operators for which an option acts."""


def answer_operator(
    asked: RooflineInput, calibration: Calibration | None, given: frozenset[str] = frozenset()
) -> Answer:
    """Return the answer on one operator of one shape on one accelerator.

    Raises: AdvisorError: no shape, or one that the operator does not have. UnknownNameError: a name is in no record.
        InfeasibleError: the accelerator cannot be simulated.
    """
    name, name_note = _operator(asked.op or "")
    for option, acts in _ACTS_FOR.items():
        if option in given and name not in acts:
            raise AdvisorError(
                f"{option_of(option)} does not act for --op {name}",
                why=f"it acts for {', '.join(acts)}",
                fix=f"leave out {option_of(option)}",
            )
    record, note = accelerators.get(asked.gpu)
    notes = tuple(filter(None, (name_note, note)))
    if asked.shape is None:
        example = "1GiB" if name == _COLLECTIVE else shape_example(_exact_name(name))
        raise AdvisorError(
            f"--op {name} has no shape",
            why="time and intensity depend on it",
            fix=f"advisor roofline --op {name} {example} --gpu {asked.gpu}",
        )
    if name == _COLLECTIVE:
        _, group, group_note = group_of(asked.gpu, asked.gpus, None, calibration)
        size = parse_bytes(asked.shape, "SHAPE")
        predicted = predict("all_reduce", size, group)
        return collective_answer(record, group, predicted, tuple(filter(None, (name_note, group_note))))
    dtype, format_note = known_dtype("int4" if asked.dtype == "w4a16" else asked.dtype, "dtype")
    question = OperatorQuestion(
        _exact_name(name),
        _dimensions(asked.shape, _exact_name(name)),
        dtype or "bf16",
        asked.kv_heads,
        asked.causal,
        _tile(asked.tile),
    )
    device = device_of(calibrated_accelerator(record, calibration))
    analysis = analyse_operator(question, device, record.peak_flop_per_s.get("fp32"))
    return operator_answer(record, device, analysis, (*notes, *filter(None, (format_note,))))


def _exact_name(name: str) -> OperatorName:
    found: OperatorName = next(each for each in OPERATOR_NAMES if each == name)
    return found


def _operator(text: str) -> tuple[str, str]:
    """Return the operator that a name stands for, and a note if it is an alias.

    Raises: UnknownNameError: no operator is called so.
    """
    known = (*OPERATOR_NAMES, _COLLECTIVE)
    word = text.lower().replace("_", "-")
    if word in known:
        return word, ""
    if word in _ALIASES or text in _ALIASES:
        name = _ALIASES.get(word) or _ALIASES[text]
        return name, f"operator '{text}' is taken as {name}"
    near = near_misses(word, known, _ALIASES)
    nearest = _NOT_MODELLED.get(word, "")
    raise UnknownNameError(
        f"no operator '{text}' is modelled",
        why=f"kernels were fitted for {', '.join(known)}",
        fix=f"--op {near[0] if near else 'gemm'}",
        hint=f"the nearest that is modelled: {nearest}" if nearest else "",
    )


def _dimensions(text: str, name: OperatorName) -> tuple[int, ...]:
    """Return the sizes of a shape, typed in the order of the operator or by name: heads=64,batch=8,...

    Raises: AdvisorError: a size cannot be read or lacks; by its size, one was typed in the place of another.
    """
    names = shape_names(name)
    is_named = "=" in text
    if is_named:
        typed = [part.partition("=") for part in re.split(r"[\s,;]+", text.strip()) if part]
        found = {key.strip().replace("-", "_"): value for key, _, value in typed}
        parts = [found.get(each, "") for each in names] if len(typed) == len(found) == len(names) else []
    else:
        parts = [part for part in re.split(r"[x×X*,]", text.strip()) if part]
    try:
        sizes = tuple(round(parse_count(part, "SHAPE")) for part in parts)
    except AdvisorError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise AdvisorError(
            f"shape {text!r} cannot be read",
            why=f"{name} has {' x '.join(names)}, each a whole number",
            fix=f"--op {name} {shape_example(name)}",
            hint=f"sizes may be named: {_by_name(name, _dimensions(shape_example(name), name))}",
        )
    if math.prod(sizes) > _MOST_ELEMENTS:
        raise AdvisorError(
            f"shape {text!r} is out of range", why="no device runs it", fix=shape_example(name)
        )
    if not is_named and len(sizes) == len(names):
        _check_order(sizes, name)
    return sizes


def _check_order(sizes: tuple[int, ...], name: OperatorName) -> None:
    """Refuse a shape whose order is another one by its sizes. Raises: AdvisorError: a dimension is larger than any
    model has it."""
    wrong = misplaced_dimension(name, sizes)
    if not wrong:
        return
    names = shape_names(name)
    meant = reordered_shape(name, sizes)
    as_typed = _by_name(name, sizes)
    raise AdvisorError(
        f"in the order of --op {name}, {'x'.join(map(str, sizes))} has {sizes[names.index(wrong)]:,} as its {wrong}",
        why=f"the order is {' x '.join(names)}, and no published model has more than {most_of(name, wrong):,} there",
        fix=f"--op {name} {_by_name(name, meant) if meant else as_typed}",
        hint=f"if that is meant, name the sizes: {as_typed}" if meant else "",
    )


def _by_name(name: OperatorName, sizes: tuple[int, ...]) -> str:
    """Return a shape with its dimensions named, as it is typed."""
    return ",".join(f"{each}={size}" for each, size in zip(shape_names(name), sizes, strict=True))


def _tile(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,5})\s*[x×]\s*(\d{1,5})", text.strip())
    if found is None or not int(found[1]) or not int(found[2]):
        raise AdvisorError(
            f"--tile {text} cannot be read", why="a tile has rows and columns", fix="--tile 128x128"
        )
    return int(found[1]), int(found[2])

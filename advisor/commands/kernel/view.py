"""One operator as an answer: what was measured beside the roof, and the model of its tiles."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from advisor.catalog.errors import install_command
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import GIGA
from advisor.probes.kernel_process import KernelTime
from advisor.render.answer import Answer, Block, Figure, Paragraph, Table, columns
from advisor.render.document import pick_attributes
from advisor.render.numbers import (
    COMPUTE,
    LEGEND,
    MISSING,
    RATE,
    TIME,
    digits,
    percent,
    show,
    show_quantity,
)
from advisor.simulator.kernel_tiles import TileOccupancy
from advisor.simulator.single_operator import OperatorAnalysis

_BAR: Final = 40
"""Width of the picture of one wave [characters]."""


@dataclass(frozen=True, slots=True)
class KernelAnswer:
    """Model and measurement of one operator at one shape on one accelerator."""

    name: str
    dtype: str
    accelerator: Accelerator
    analysis: OperatorAnalysis
    is_causal: bool
    """Whether it is attention whose queries see the tokens before them, half of all pairs."""
    times: tuple[KernelTime, ...]
    """Measured instruments and tile shapes; empty without a GPU."""
    tiles: tuple[TileOccupancy, ...]
    needs: tuple[str, ...]
    """Parts that this machine lacks for a measurement, in words."""


def kernel_answer(content: KernelAnswer, inputs: dict[str, object], notes: tuple[str, ...]) -> Answer:
    """Return the answer of `advisor kernel`."""
    measured = [time for time in content.times if time.tile is None]
    swept = [time for time in content.times if time.tile is not None]
    usual = content.analysis.usual
    blocks: list[Block] = [Paragraph(_headline(content, measured), emphasis=True)]
    if content.needs:
        needs = ", ".join(content.needs)
        blocks.append(
            Paragraph(
                f"Not measured. A measurement needs {needs}: {install_command('probe')}, on such a machine; then run "
                "this command there."
            )
        )
    if measured:
        blocks.append(_measured_table(content, measured))
    blocks.append(Paragraph(_roof(content)))
    if content.tiles:
        blocks.append(_tile_table(content.tiles, swept, content))
        if picture := wave_picture(content.tiles):
            blocks.append(Figure(picture, title="SMs with a tile in the last wave"))
    blocks.append(Paragraph(LEGEND))
    return Answer(
        result={
            "kernel": content.name,
            "shape": content.analysis.shape,
            "dtype": content.dtype,
            "causal": content.is_causal,
            "accelerator": content.accelerator.id,
            "bound": usual.bound(content.analysis.bandwidth_bytes_per_s),
            "flop": usual.work.flop,
            "num_bytes": usual.work.num_bytes,
            "floor_s": usual.floor_s,
            "predicted_s": usual.predicted_s,
            "measured": [_time_fields(content, time) for time in measured],
            "tiles": [_tile_fields(tile, swept, content) for tile in content.tiles],
            "needs": list(content.needs),
        },
        inputs=inputs,
        blocks=tuple(blocks),
        records="measured" if measured else "tiles",
        notes=notes,
    )


def _shape_words(content: KernelAnswer) -> str:
    return " x ".join(str(size) for name, size in content.analysis.shape.items() if name != "kv_heads")


def _headline(content: KernelAnswer, measured: Sequence[KernelTime]) -> str:
    masked = ", causal," if content.is_causal else ""
    where = f"{content.name} {_shape_words(content)}{masked} in {content.dtype} on {content.accelerator.id}"
    own = [time.time_s for time in measured if time.time_s and time.instrument.startswith("advisor")]
    if own:
        best = min(own)
        peers = {
            time.instrument: time.time_s / best
            for time in measured
            if time.time_s and not time.instrument.startswith("advisor")
        }
        beside = "".join(f", {percent(share)} of the rate of {name}" for name, share in peers.items())
        return f"{where}: {show(best, TIME)}, {percent(content.analysis.usual.floor_s / best)} of the roof{beside}"
    predicted = content.analysis.usual.predicted_s
    words = f"predicted {show_quantity(predicted, TIME)}" if predicted else "no time is predicted"
    return f"{where}: the roof allows {show(content.analysis.usual.floor_s, TIME)}, {words}"


def _roof(content: KernelAnswer) -> str:
    usual = content.analysis.usual
    bandwidth = content.analysis.bandwidth_bytes_per_s
    halved = (
        " Causal: a query sees the tokens up to its own, so that half of the pairs count."
        if content.is_causal
        else ""
    )
    return (
        f"The roof: {digits(usual.work.intensity_flop_per_byte)} flop/byte against a ridge of "
        f"{digits(usual.peak_flop_per_s / bandwidth)}, so {usual.bound(bandwidth)} bounds it; "
        f"{show(usual.peak_flop_per_s, COMPUTE)} and {show(bandwidth, RATE)} by the datasheet allow "
        f"{show(usual.floor_s, TIME)}.{halved}"
    )


def _rate(content: KernelAnswer, time_s: float) -> float:
    """Rate of the bound: flop or bytes over the time."""
    work = content.analysis.usual.work
    is_compute = content.analysis.usual.bound(content.analysis.bandwidth_bytes_per_s) == "compute"
    return (work.flop if is_compute else work.num_bytes) / time_s


def _show_rate(content: KernelAnswer, time_s: float) -> str:
    is_compute = content.analysis.usual.bound(content.analysis.bandwidth_bytes_per_s) == "compute"
    return show(_rate(content, time_s), COMPUTE if is_compute else RATE)


def _measured_table(content: KernelAnswer, measured: Sequence[KernelTime]) -> Table:
    floor_s = content.analysis.usual.floor_s
    rows = tuple(
        (
            time.instrument,
            show(time.time_s, TIME),
            _show_rate(content, time.time_s),
            percent(floor_s / time.time_s),
            f"{time.error:.1e}" if time.error is not None else MISSING,
            f"{time.clock_hz / GIGA:.2f} GHz" if time.clock_hz else MISSING,
        )
        if time.time_s
        else (f"{time.instrument}: {time.reason}", MISSING, MISSING, MISSING, MISSING, MISSING)
        for time in measured
    )
    return Table(
        columns("kernel~ | time> | rate> | of the roof> | error against fp64> | clock>"), rows, "Measured"
    )


def _time_of_tile(tile: TileOccupancy, swept: Sequence[KernelTime]) -> KernelTime | None:
    shape = (tile.tile_rows, tile.tile_columns)
    return next((time for time in swept if time.tile == shape), None)


def _tile_table(tiles: Sequence[TileOccupancy], swept: Sequence[KernelTime], content: KernelAnswer) -> Table:
    rows = []
    least = min((tile.relative_time for tile in tiles if tile.relative_time), default=None)
    for tile in tiles:
        time = _time_of_tile(tile, swept)
        rows.append(
            (
                f"{tile.tile_rows} x {tile.tile_columns}",
                f"{tile.num_tiles:,}",
                digits(tile.waves) if tile.waves else MISSING,
                percent(tile.busy_fraction) if tile.busy_fraction else MISSING,
                MISSING if tile.programs_per_sm is None else str(tile.programs_per_sm),
                tile.limited_by or MISSING,
                f"{tile.relative_time / least:.2f}" if tile.relative_time and least else MISSING,
                _show_rate(content, time.time_s) if time and time.time_s else MISSING,
            )
        )
    header = (
        "tile | tiles> | waves> | busy> | programs per SM> | limited by | predicted, relative> | measured>"
    )
    return Table(columns(header), tuple(rows), "Tiles")


def wave_picture(tiles: Sequence[TileOccupancy]) -> str:
    """Return a bar for each tile shape: how many SMs have a tile in the last wave."""
    lines = []
    for tile in tiles:
        if not tile.num_sms:
            continue
        rest = tile.num_tiles % tile.num_sms or tile.num_sms
        filled = max(1, round(_BAR * rest / tile.num_sms))
        bar = "█" * filled + "░" * (_BAR - filled)
        lines.append(f"{tile.tile_rows:>4} x {tile.tile_columns:<4}{bar} {rest} of {tile.num_sms}")
    return "\n".join(lines)


def _time_fields(content: KernelAnswer, time: KernelTime) -> dict[str, object]:
    is_compute = content.analysis.usual.bound(content.analysis.bandwidth_bytes_per_s) == "compute"
    return {
        **pick_attributes(time, "instrument time_s error clock_hz reason"),
        "rate": _rate(content, time.time_s) if time.time_s else None,
        "unit": "flop/s" if is_compute else "bytes/s",
        "roof_fraction": content.analysis.usual.floor_s / time.time_s if time.time_s else None,
    }


def _tile_fields(
    tile: TileOccupancy, swept: Sequence[KernelTime], content: KernelAnswer
) -> dict[str, object]:
    time = _time_of_tile(tile, swept)
    return {
        **pick_attributes(
            tile, "tile_rows tile_columns num_tiles num_sms", "waves busy_fraction programs_per_sm limited_by"
        ),
        "relative_time": tile.relative_time,
        "time_s": time.time_s if time else None,
        "rate": _rate(content, time.time_s) if time and time.time_s else None,
        "error": time.error if time else None,
    }

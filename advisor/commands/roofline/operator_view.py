"""One operator on the roofline as an answer: ways to run it, tiles and waves, and what fusing saves."""

from advisor.catalog.schema import Accelerator
from advisor.catalog.units import GIGA
from advisor.render.answer import Answer, Block, Paragraph, Table, columns
from advisor.render.document import pick_attributes
from advisor.render.numbers import (
    BINARY_SIZE,
    COMPUTE,
    LEGEND,
    MISSING,
    RATE,
    SIZE,
    TIME,
    digits,
    percent,
    show,
    show_quantity,
    words_of,
)
from advisor.simulator.collectives import Topology
from advisor.simulator.collectives.operations import bus_factor
from advisor.simulator.collectives.prediction import CollectivePrediction
from advisor.simulator.device import Device
from advisor.simulator.single_operator import OperatorAnalysis, OperatorKernels, TileGrid


def operator_answer(
    record: Accelerator, device: Device, analysis: OperatorAnalysis, notes: tuple[str, ...]
) -> Answer:
    """Return one operator in every usual way to run it; the headline is of the usual one."""
    usual = analysis.usual
    bandwidth = analysis.bandwidth_bytes_per_s
    ridge = usual.peak_flop_per_s / bandwidth
    bound = usual.bound(bandwidth)
    shape = ", ".join(f"{name} {size:,}" for name, size in analysis.shape.items())
    matrix_ridge = analysis.matrix_flop_per_s / bandwidth
    is_vector = usual.peak_flop_per_s < analysis.matrix_flop_per_s
    ridges = f"{digits(matrix_ridge)} ({digits(ridge)} of the vector unit)" if is_vector else digits(ridge)
    predicted = show_quantity(usual.predicted_s, TIME) if usual.predicted_s else "not predicted"
    headline = (
        f"{analysis.operator} of {shape} in {analysis.dtype} on {record.id}: "
        f"{digits(usual.work.intensity_flop_per_byte)} flop/byte against a ridge of {ridges}, {bound}-bound; "
        f"the roof allows {show(usual.floor_s, TIME)}, predicted {predicted}"
    )
    work = (
        f"{digits(usual.work.flop / GIGA)} Gflop, {show(usual.work.num_bytes, SIZE)} moved; "
        f"{show(usual.peak_flop_per_s, COMPUTE)} and {show(bandwidth, RATE)} by the datasheet."
    )
    rows = tuple(_way_row(way, bandwidth) for way in analysis.ways)
    blocks: list[Block] = [
        Paragraph(headline, emphasis=True),
        Paragraph(work),
        Table(columns("kernels | launches> | moved> | flop/byte> | bound | roof allows> | predicted"), rows),
    ]
    if len(analysis.ways) > 1:
        blocks.append(Paragraph(_saving(analysis)))
    if analysis.chosen is not None:
        blocks += _tile_blocks(analysis, analysis.chosen)
    if analysis.remarks:
        blocks.append(Paragraph("\n".join(f"{text[0].upper()}{text[1:]}." for text in analysis.remarks)))
    blocks.append(Paragraph(LEGEND))
    return Answer(
        result={
            "operator": analysis.operator,
            "shape": analysis.shape,
            "dtype": analysis.dtype,
            **pick_attributes(usual.work, "flop", "num_bytes", "intensity_flop_per_byte"),
            "ridge_flop_per_byte": ridge,
            "matrix_ridge_flop_per_byte": matrix_ridge,
            "bound": bound,
            "peak_flop_per_s": usual.peak_flop_per_s,
            "bandwidth_bytes_per_s": bandwidth,
            "launches": usual.launches,
            "floor_s": usual.floor_s,
            "predicted_s": usual.predicted_s,
            "saved_bytes": analysis.saved_bytes,
            "tiles": _grid_fields(analysis.chosen) if analysis.chosen else None,
            "ways": [_way_fields(way, bandwidth) for way in analysis.ways],
            "tile_sizes": [_grid_fields(grid) for grid in analysis.grids],
            "remarks": analysis.remarks,
        },
        inputs={"gpu": record.id, "op": analysis.operator, "shape": analysis.shape, "dtype": analysis.dtype},
        blocks=tuple(blocks),
        records="ways",
        notes=notes,
        warnings=_warnings(record, device),
    )


def _warnings(record: Accelerator, device: Device) -> tuple[str, ...]:
    if not device.assumed:
        return ()
    words = ", ".join(words_of(name) for name in device.assumed)
    return (f"{record.id}: no source states its {words}; a usual chip's are taken",)


def _way_row(way: OperatorKernels, bandwidth: float) -> tuple[str, ...]:
    is_nothing = not way.work.num_bytes
    return (
        way.name,
        str(way.launches),
        show(way.work.num_bytes, SIZE),
        MISSING if is_nothing else digits(way.work.intensity_flop_per_byte),
        MISSING if is_nothing else way.bound(bandwidth),
        MISSING if is_nothing else show(way.floor_s, TIME),
        show_quantity(way.predicted_s, TIME) if way.predicted_s else MISSING,
    )


def _saving(analysis: OperatorAnalysis) -> str:
    least = min(analysis.ways, key=lambda way: way.work.num_bytes)
    most = max(analysis.ways, key=lambda way: way.work.num_bytes)
    launches = most.launches - least.launches
    also = f" and {launches} launch{'es' if launches > 1 else ''}" if launches > 0 else ""
    return f"Fusing saves {show(analysis.saved_bytes, SIZE)}{also}: '{least.name}' against '{most.name}'."


def _tile_blocks(analysis: OperatorAnalysis, chosen: TileGrid) -> list[Block]:
    split = f", depth in {chosen.split} pieces" if chosen.split > 1 else ""
    what = (
        f"{chosen.tile_rows} x {chosen.tile_columns}" if analysis.grids else f"{chosen.tile_rows} query rows"
    )
    words = (
        f"Tiles of {what}{split}: {chosen.num_tiles:,} on {chosen.num_sms} SMs are {digits(chosen.waves)} waves, "
        f"paid as {chosen.paid_waves:,}; {percent(chosen.wave_fraction)} of the SMs' time has a tile."
    )
    if not analysis.grids:
        return [Paragraph(words)]
    table = Table(
        columns("tile | tiles> | waves> | paid> | busy>"),
        tuple(
            (
                f"{grid.tile_rows} x {grid.tile_columns}",
                f"{grid.num_tiles:,}",
                digits(grid.waves),
                f"{grid.paid_waves:,}",
                percent(grid.wave_fraction),
            )
            for grid in analysis.grids
        ),
        title="Wave quantisation",
    )
    return [Paragraph(words), table]


def _way_fields(way: OperatorKernels, bandwidth: float) -> dict[str, object]:
    return {
        "name": way.name,
        "launches": way.launches,
        "flop": way.work.flop,
        "num_bytes": way.work.num_bytes,
        "intensity_flop_per_byte": way.work.intensity_flop_per_byte if way.work.num_bytes else None,
        "bound": way.bound(bandwidth),
        **pick_attributes(way, "peak_flop_per_s", "floor_s", "predicted_s"),
    }


def _grid_fields(grid: TileGrid) -> dict[str, object]:
    return pick_attributes(
        grid, "tile_rows tile_columns split num_tiles num_sms", "waves paid_waves wave_fraction"
    )


def collective_answer(
    record: Accelerator, group: Topology, predicted: CollectivePrediction, notes: tuple[str, ...]
) -> Answer:
    """Return an all-reduce under the roof of the links that join its ranks."""
    factor = float(bus_factor("all_reduce", group.num_ranks))
    link = group.inter_bytes_per_s if group.num_nodes > 1 else group.intra_bytes_per_s
    moved = factor * predicted.num_bytes
    floor = moved / link
    headline = (
        f"all-reduce of {show(predicted.num_bytes, BINARY_SIZE)} on {group.num_ranks} x {record.id}: a ring moves "
        f"{show(moved, SIZE)} per rank over {show(link, RATE)} in at least {show(floor, TIME)}; predicted "
        f"{show_quantity(predicted.time_s, TIME)} with {predicted.algorithm}, link-bound"
    )
    more = (
        "A sum inside the switch (NVLS, SHARP) sends each byte once instead of twice and may come below the ring's "
        "floor. `advisor simulate collective` has other sizes, algorithms and networks."
    )
    return Answer(
        result={
            "operator": "all-reduce",
            "num_bytes": predicted.num_bytes,
            "wire_bytes_per_rank": moved,
            "link_bytes_per_s": link,
            "bound": "link",
            "ring_floor_s": floor,
            "predicted_s": predicted.time_s,
            "algorithm": predicted.algorithm,
            "bus_bytes_per_s": predicted.bus_bytes_per_s,
            "num_ranks": group.num_ranks,
        },
        inputs={"gpu": record.id, "op": "all-reduce", "bytes": predicted.num_bytes, "gpus": group.num_ranks},
        blocks=(Paragraph(headline, emphasis=True), Paragraph(more), Paragraph(LEGEND)),
        notes=notes,
    )

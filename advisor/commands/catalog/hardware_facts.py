"""Links by generation, bits of number formats, and work per watt of accelerators, as answers."""

from dataclasses import replace
from typing import Final

from advisor.ask.options import SharedOptions
from advisor.ask.topology import check_network
from advisor.catalog import accelerators, models
from advisor.catalog.dtypes import DTYPES, bytes_per_element, grouped_bits, known_dtype
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.interconnects import all_interconnects
from advisor.catalog.regions import get_region
from advisor.catalog.schema import Accelerator, Interconnect
from advisor.catalog.units import BITS_PER_BYTE, GB, JOULES_PER_KWH, KILO, MILLION, TERA
from advisor.commands.catalog.options import BitsInput, EfficiencyInput, InterconnectsInput
from advisor.render.answer import Answer, Block, Paragraph, Table, columns
from advisor.render.document import fields_of
from advisor.render.numbers import LEGEND, MISSING, RATE, SIZE, digits, show, show_quantity
from advisor.simulator.deployment import named_deployment
from advisor.simulator.device import device_of
from advisor.simulator.engine_costs import engine_costs, operator_library
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.memory import weight_bytes
from advisor.simulator.power import working_power_w
from advisor.simulator.quantity import Quantity
from advisor.simulator.roofline import decode_step_work, total_work
from advisor.simulator.surface import decode_breakdown_s

NETWORK_WORDS: Final = (
    ("HDR, NDR, XDR", "InfiniBand generations: 200, 400, 800 Gb/s a port, i.e. 25, 50, 100 GB/s one way"),
    ("RoCE", "RDMA over Ethernet: the rate is the port's; needs a lossless or well-tuned network"),
    ("EFA", "AWS's network: '32x100Gb' are 32 ports of 100 Gb/s a node, i.e. 400 GB/s (p5)"),
    ("8x400Gb", "8 ports of 400 Gb/s a node, as a rule one per accelerator: 50 GB/s each"),
    ("SHARP, NVLS", "the switch sums: an all-reduce sends each byte once instead of twice"),
    ("rail-optimised", "ports of equal rank meet in one leaf switch: traffic stays one hop away"),
    ("oversubscription 2", "leaves have half as many uplinks as ports: traffic between leaves is halved"),
    (
        "Gb/s, GB/s",
        "8 Gb/s are 1 GB/s; vendors give NVLink as the sum of both directions: 900 is 450 one way",
    ),
)
"""Words of networks, and their meaning. Source: vocabulary of published nccl-tests results; IBTA roadmap."""


def answer_interconnects(asked: InterconnectsInput, shared: SharedOptions) -> Answer:
    """Return links by kind and generation, and what names of networks mean.

    Raises: UnknownNameError: no network, or no kind, is called so.
    """
    links = all_interconnects()
    kinds = tuple(dict.fromkeys(link.kind for link in links))
    if asked.kind is not None:
        from advisor.catalog.resolve import known_value

        known_value(asked.kind, set(kinds), "kind")
        links = tuple(link for link in links if link.kind == asked.kind)
    blocks: list[Block] = []
    described = None
    if asked.network is not None:
        described = _describe_network(asked.network)
        blocks.append(Paragraph(described, emphasis=True))
    blocks += [
        Table(
            columns("link | per | one way> | both ways> | measured bus> | topology | sums in switch"),
            tuple(_link_row(link) for link in links),
        ),
        Paragraph(
            "One way: what one endpoint sends. Measured bus: bus bandwidth of large all-reduces as nccl-tests counts "
            "it, without sums in the switch."
        ),
        Table(columns("word | meaning~"), NETWORK_WORDS, title="Names of networks"),
    ]
    return Answer(
        result={
            "interconnects": [fields_of(link, "sources") for link in links],
            "network": described,
            "words": [{"word": word, "meaning": meaning} for word, meaning in NETWORK_WORDS],
        },
        inputs={"kind": asked.kind, "network": asked.network},
        blocks=tuple(blocks),
        records="interconnects",
    )


def _link_row(link: Interconnect) -> tuple[str, ...]:
    return (
        link.id,
        link.per,
        show(link.bytes_per_s, RATE),
        show(2.0 * link.bytes_per_s, RATE),
        show(link.measured_bus_bytes_per_s, RATE),
        link.topology,
        "yes" if link.in_network_reduction else "",
    )


def _describe_network(text: str) -> str:
    """Return the rate that a name of a network stands for in a node of eight accelerators.

    Raises: UnknownNameError: no network is called so.
    """
    from advisor.simulator.collectives.fabric_text import describe

    check_network(text)
    group, assumed = describe(accelerators.by_id("h100-sxm"), text, 16, 2)
    words = f"; taken: {', '.join(assumed)}" if assumed else ""
    return (
        f"{text}: {show(group.inter_bytes_per_s * group.ranks_in_node, RATE)} one way for a node of "
        f"{group.ranks_in_node} accelerators, {show(group.inter_bytes_per_s, RATE)} for each{words}"
    )


def answer_bits(asked: BitsInput, shared: SharedOptions) -> Answer:
    """Return the bits of an element with its share of scales and zero points, and those of every known format.

    Raises: AdvisorError: a model without parameters is meant, or the width is out of range.
    """
    rows = [(name, BITS_PER_BYTE * bytes_per_element(name)) for name in DTYPES]
    blocks: list[Block] = []
    grouped: list[tuple[float, float]] = []
    total: float | None = None
    notes: tuple[str, ...] = ()
    if asked.model is not None:
        found = models.get(asked.model)
        total = parameter_count(found.record).total
        notes = (found.note,) if found.note else ()
    if asked.bits is not None:
        zeros = (0.0, float(asked.bits), 16.0) if asked.zero_bits is None else (asked.zero_bits,)
        grouped = [(zero, grouped_bits(asked.bits, asked.group, asked.scale_bits, zero)) for zero in zeros]
        widths = ", ".join(f"{digits(width, 4)} {_zero_words(zero)}" for zero, width in grouped)
        blocks.append(
            Paragraph(
                f"{asked.bits:g} bits in groups of {asked.group} with a scale of {asked.scale_bits:g} bits each: "
                f"{widths}",
                emphasis=True,
            )
        )
    listed = rows if asked.bits is None else [(_zero_words(zero), width) for zero, width in grouped]
    header = columns("format | bits> | of 16 bits>" + (" | weights>" if total else ""))
    table_rows = tuple(
        (name, digits(width, 4), f"{digits(width / 16)} x")
        + ((show(total * width / BITS_PER_BYTE, SIZE),) if total else ())
        for name, width in listed
    )
    blocks += [
        Table(header, table_rows),
        Paragraph(
            "Bits of an element = bits + (scale + zero point) / group. Widths of GGUF formats are means of whole files."
        ),
    ]
    return Answer(
        result={
            "grouped": [{"zero_point_bits": zero, "bits_per_element": width} for zero, width in grouped],
            "formats": [{"format": name, "bits_per_element": bits} for name, bits in rows],
        },
        inputs={
            "bits": asked.bits,
            "group": asked.group,
            "scale_bits": asked.scale_bits,
            "zero_bits": asked.zero_bits,
            "model": asked.model,
        },
        blocks=tuple(blocks),
        records="formats",
        notes=notes,
    )


def _zero_words(bits: float) -> str:
    return f"with {bits:g}-bit zero points" if bits else "without zero points"


def answer_efficiency(asked: EfficiencyInput, shared: SharedOptions) -> Answer:
    """Return peak rates per watt over the catalog and, for a model, tokens per joule and their carbon.

    Raises: UnknownNameError: no model, format or region is called so. InfeasibleError: no accelerator has what is
        asked.
    """
    precision, format_note = known_dtype(asked.precision)
    asked = replace(asked, precision=precision)
    records = [record for record in accelerators.all_accelerators() if record.tdp_w]
    if asked.gpu is not None:
        named = [accelerators.get(name.strip()).record.id for name in asked.gpu.split(",")]
        records = [record for record in records if record.id in named]
    regions = [get_region(name.strip())[0] for name in asked.region.split(",")]
    rows = []
    for record in records:
        energy = _tokens_per_joule(record, asked) if asked.model is not None else None
        if asked.model is not None and energy is None:
            continue
        rows.append(_efficiency_row(record, energy))
    if not rows:
        raise InfeasibleError(
            "no accelerator can be listed",
            why="none of them has a sourced power and holds the model alone",
            fix="leave out --model or --gpu",
        )
    key = "tokens_per_joule" if asked.model is not None else f"{asked.sort}_tflop_per_s_per_w"
    rows.sort(key=lambda row: -_number(row.get(key)))
    shown = rows[: asked.top]
    blocks: list[Block] = [Paragraph(_efficiency_headline(asked, shown[0]), emphasis=True)]
    header = "accelerator | W> | bf16/W> | fp8/W> | fp4/W> | GB/s per W>"
    if asked.model is not None:
        header += " | tokens/s> | drawn W> | tokens/J"
    blocks.append(Table(columns(header), tuple(_efficiency_cells(row, asked.model) for row in shown)))
    if asked.model is not None:
        best = shown[0]["tokens_per_joule"]
        assert isinstance(best, Quantity)
        carbon = tuple(
            (
                region.name,
                digits(region.kg_co2e_per_kwh * KILO),
                digits(MILLION / best.value / JOULES_PER_KWH * region.kg_co2e_per_kwh * KILO),
                str(region.carbon_year),
            )
            for region in regions
        )
        blocks.append(
            Table(
                columns("grid | g CO2e/kWh> | g CO2e per M tokens> | year"),
                carbon,
                title=f"Carbon of a million tokens on {shown[0]['accelerator']}, the board alone",
            )
        )
        blocks.append(Paragraph(LEGEND))
    blocks.append(
        Paragraph(
            f"{len(shown)} of {len(rows)} shown (--top). Dense TFLOP/s over rated board power; hosts and cooling are "
            "left out: `advisor cost` has them."
        )
    )
    return Answer(
        result={"accelerators": rows, "regions": [fields_of(region) for region in regions]},
        inputs={
            "model": asked.model,
            "batch": asked.batch,
            "context": asked.context,
            "precision": asked.precision,
            "region": asked.region,
            "sort": asked.sort,
        },
        blocks=tuple(blocks),
        notes=(format_note,) if format_note else (),
        records="accelerators",
    )


def _number(value: object) -> float:
    if isinstance(value, Quantity):
        return value.value
    return float(value) if isinstance(value, int | float) else -1.0


def _efficiency_headline(asked: EfficiencyInput, best: dict[str, object]) -> str:
    if asked.model is None:
        rate = digits(_number(best[f"{asked.sort}_tflop_per_s_per_w"]))
        return f"{best['accelerator']} has the highest dense {asked.sort} rate per watt: {rate} TFLOP/s per W"
    energy = best["tokens_per_joule"]
    assert isinstance(energy, Quantity)
    return (
        f"{asked.model}, {asked.batch} sequences of {asked.context:,} tokens: most tokens per joule on "
        f"{best['accelerator']}, {show_quantity(energy)}"
    )


def _efficiency_row(
    record: Accelerator, energy: tuple[float, Quantity, Quantity] | None
) -> dict[str, object]:
    watts = record.tdp_w or 1.0
    peaks = record.peak_flop_per_s
    row: dict[str, object] = {"accelerator": record.id, "tdp_w": watts}
    for name in ("bf16", "fp8", "fp4", "int8"):
        row[f"{name}_tflop_per_s_per_w"] = peaks[name] / TERA / watts if name in peaks else None
    bandwidth = record.bandwidth_bytes_per_s
    row["gb_per_s_per_w"] = bandwidth / GB / watts if bandwidth else None
    if energy is not None:
        row |= {"tokens_per_s": energy[0], "power_w": energy[1], "tokens_per_joule": energy[2]}
    return row


def _efficiency_cells(row: dict[str, object], model: str | None) -> tuple[str, ...]:
    def cell(name: str) -> str:
        value = row[name]
        return MISSING if value is None else digits(_number(value))

    names = (
        "tdp_w",
        "bf16_tflop_per_s_per_w",
        "fp8_tflop_per_s_per_w",
        "fp4_tflop_per_s_per_w",
        "gb_per_s_per_w",
    )
    cells = (str(row["accelerator"]), *(cell(name) for name in names))
    if model is None:
        return cells
    energy = row["tokens_per_joule"]
    assert isinstance(energy, Quantity)
    return (*cells, cell("tokens_per_s"), cell("power_w"), show_quantity(energy))


def _tokens_per_joule(record: Accelerator, asked: EfficiencyInput) -> tuple[float, Quantity, Quantity] | None:
    """Return decoded tokens per second, draw [W] and tokens per joule of one accelerator that holds the model alone;
    None if it does not, or cannot be simulated.

    Assumes: a decode step of equal sequences without a pause; the draw is the board's.
    """
    if not record.engines:
        return None
    try:
        device = device_of(record)
        deployment = named_deployment(
            asked.model or "", record.id, record.engines[0], weight_dtype=asked.precision
        )
    except InfeasibleError:
        return None
    cache = decode_step_work(deployment.model, asked.batch, asked.context, kv_dtype=deployment.kv_dtype)
    held = weight_bytes(deployment) + cache["attention"].num_bytes
    if held > device.memory_bytes:
        return None
    costs = engine_costs(deployment.engine)
    seconds = sum(
        decode_breakdown_s(
            deployment, operator_library(deployment), costs, asked.batch, asked.context
        ).values()
    )
    work = total_work(
        decode_step_work(
            deployment.model,
            asked.batch,
            asked.context,
            weight_dtype=deployment.weight_dtype,
            kv_dtype=deployment.kv_dtype,
        ).values()
    )
    memory = min(1.0, work.num_bytes / seconds / device.bandwidth_bytes_per_s)
    compute = min(1.0, work.flop / seconds / device.peak_flop_per_s["bf16"])
    power = working_power_w(record, memory, compute)
    if power is None:
        return None
    rate = asked.batch / seconds
    return rate, power, rate / power

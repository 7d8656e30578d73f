"""Workstations as an answer: the machine to buy, its bill, what it runs, what it costs, which rules it keeps."""

import datetime
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.part_prices import STALE_AFTER_DAYS, price_words
from advisor.catalog.schema.part import Bridge
from advisor.catalog.units import BITS_PER_BYTE, GB
from advisor.commands.build.machine_picture import machine_svg
from advisor.commands.build.records import bill_records, build_record, question_inputs
from advisor.render.answer import Answer, Axis, Block, Chart, Datum, Paragraph, Series, Table, columns
from advisor.render.document import fields_of
from advisor.render.numbers import (
    LEGEND,
    MISSING,
    POWER,
    TIME,
    digits,
    percent,
    range_words,
    show,
    show_quantity,
    usd,
    words_of,
)
from advisor.simulator.quantity import Quantity
from advisor.workstation.assembly import Assembly, Check, is_server
from advisor.workstation.hardware import HardwareRun
from advisor.workstation.images import usual_image
from advisor.workstation.knee import knee, knee_words, software_doubt, speed_of, steps
from advisor.workstation.performance import IMAGES, MachinePerformance
from advisor.workstation.plan import IN_ANOTHER, WITH_OTHERS, Build, PartLine, PlanResult, Question
from advisor.workstation.valuation import IN_THE_MACHINE, OWNED, hardware_of
from advisor.workstation.wiring import CardWiring, reach_of_machine, wire


def plan_answer(
    found: PlanResult,
    question: Question,
    notes: tuple[str, ...],
    *,
    explain: bool,
    opening: str = "",
    remark: str = "",
) -> Answer:
    """Return the machines that the planner found, the first in full, behind an opening sentence and before a remark."""
    first = found.builds[0]
    ladder = steps(found.builds)
    best = knee(ladder)
    blocks: list[Block] = [
        Paragraph(
            "\n".join(
                filter(
                    None,
                    (opening, headline(first, question), _doubt_words(first), _used_words(found), remark),
                )
            ),
            emphasis=True,
        ),
        Paragraph(_question_words(question)),
        _machines_table(found.builds, question),
        *_others_prices(found.builds),
        *([Paragraph(words)] if (words := knee_words(ladder, found.builds)) else []),
        *_frontier_chart(found.builds),
        *machine_blocks(first, explain=explain),
    ]
    for other in found.builds[1:] if explain else ():
        blocks += machine_blocks(other, explain=True)
    blocks.append(Paragraph(_search_words(found)))
    return Answer(
        result={
            "kind": "build",
            "builds": [build_record(build) for build in found.builds],
            "bill": [row for build in found.builds for row in bill_records(build)],
            "steps": [fields_of(step) for step in ladder],
            "knee": best.name if best else None,
            "optimality_gap": max(build.optimality_gap for build in found.builds),
            "search": {
                "num_binaries": found.num_binaries,
                "num_inequalities": found.num_inequalities,
                "wall_s": found.wall_s,
                "unpriced_parts": dict(found.unpriced),
                "left_out": found.left_out,
            },
        },
        inputs=question_inputs(question),
        blocks=tuple(blocks),
        records="bill",
        svg="" if first.machine is None else machine_svg(f"{first.name}: slots and cables", first.machine),
        warnings=(*price_warnings(found.builds[:1], question.as_of), *speed_warnings(first)),
        notes=(*notes, *(f"left out: {system}" for system in found.left_out)),
    )


PROMPTS_COUNT_BELOW: Final = 0.7
"""Speed over whole requests, over that of decoding, below which a headline tells both. Own choice: a builder notices
that a third of the time goes into prompts."""


SLOW_TOKENS_PER_S: Final = 5.0
"""Output rate below which people read faster: 238 words a minute (Brysbaert 2019, doi 10.1016/j.jml.2019.104047) at 1.3
tokens a word."""


def slow_words(tokens_per_s: float, question: Question) -> str:
    """Return words on a speed per stream that makes people wait for each word; empty for a faster one."""
    load = question.load
    is_slow = load.workload == "serve" and tokens_per_s < SLOW_TOKENS_PER_S * load.concurrency
    return ", slower than people read" if is_slow else ""


def prompts_count(run: MachinePerformance) -> bool:
    """Whether prompts take more than 30 % of the time, so that a speed of decoding alone misleads."""
    return run.output_tokens_per_s.value < PROMPTS_COUNT_BELOW * run.decode_tokens_per_s.value


def headline(build: Build, question: Question) -> str:
    """Return the headline of a build: `2 x rtx-3090: $3,400, llama-3.1-70b at 30 tokens/s`."""
    run = build.performance
    load = question.load
    what = f"{load.model.id} at {_speed(run.decode_tokens_per_s, run.run.unit)}" if run else ""
    what = what or f"{load.model.id} does not fit"
    if run is not None and load.workload == "serve":
        whole = run.output_tokens_per_s.value
        each = f", {digits(whole / load.concurrency)} for each of {load.concurrency} streams"
        is_told = load.concurrency > 1 or prompts_count(run)
        what += f" decoding and {digits(whole)} with prompts" if is_told else ""
        what += each if load.concurrency > 1 else ""
        what += slow_words(run.decode_tokens_per_s.value, question)
        what += f", {run.run.num_waiting} of them waiting for cache" if run.run.num_waiting else ""
    return f"{build.name}: {usd(build.total_usd)}, {what}, {show(build.power_w, POWER)} at the wall"


def _speed(quantity: Quantity, unit: str = "tokens/s") -> str:
    return show_quantity(quantity, ((1.0, unit),))


def _doubt_words(build: Build) -> str:
    """Return a sentence on doubts about the software of a machine; empty if there are none."""
    doubt = software_doubt(build)
    return f"Its software: {doubt}." if doubt else ""


def _used_words(found: PlanResult) -> str:
    """Return what second-hand parts save, or that only they answer the question; empty where they do neither."""
    first = found.builds[0]
    if first.is_used:
        new = [build for build in found.builds if not build.is_used]
        if not new:
            return "No machine of new parts does it for the money: this one has second-hand parts."
        return f"It has second-hand parts: of new ones, {_beside_words(max(new, key=speed_of), first)}."
    told = []
    if found.saving is not None:
        saved = usd(first.total_usd - found.saving.total_usd)
        told.append(f"save {saved}: {_beside_words(found.saving, first)}")
    if found.gaining is not None and found.gaining is not found.saving:
        told.append(f"{'or ' if told else ''}bring speed: {_beside_words(found.gaining, first)}")
    return f"Second-hand parts {'; '.join(told)}." if told else ""


def _beside_words(other: Build, first: Build) -> str:
    """Return a machine with its price, and how fast it is beside the first one: over whole requests, which is said
    where prompts change the ratio, or decoding where the time of a prompt is not known."""
    runs = [build.performance for build in (other, first)]
    rates = [run.decode_tokens_per_s.value if run is not None else 0.0 for run in runs]
    ratio = rates[0] / rates[1]
    whole = speed_of(other) / speed_of(first)
    is_known = all(run is not None and run.run.ttft_s is not None for run in runs)
    told = " with prompts" if is_known and abs(whole / ratio - 1.0) > _PROMPTS_CHANGE else ""
    ratio = whole if is_known else ratio
    speed = "as fast" if abs(ratio - 1.0) <= _SAME else f"{_ratio_words(ratio)}{told}"
    return f"{other.name} for {usd(other.total_usd)} is {speed}"


_PROMPTS_CHANGE: Final = 0.1
"""Difference of a ratio of speeds with prompts from that of decoding alone from which an answer says which it is."""


def _ratio_words(ratio: float) -> str:
    """Return words on a ratio of speeds: `9.0 times as fast`, `24 % faster`."""
    times = max(ratio, 1.0 / ratio)
    if times >= _TIMES_FROM:
        return f"{times:.1f} times as {'fast' if ratio > 1.0 else 'slow'}"
    return f"{abs(ratio - 1.0):.0%} {'faster' if ratio > 1.0 else 'slower'}"


_TIMES_FROM: Final = 1.5
"""Ratio of speeds from which it is told as times, below which as a fraction."""
_SAME: Final = 0.01
"""Difference of speed up to which two machines are called equally fast."""


def _others_prices(builds: Sequence[Build]) -> list[Block]:
    """Return basis, day and source of the price of every machine but the first, whose bill tells them."""
    lines = [f"{rank}. {build.name}: {_price_of_build(build)}" for rank, build in enumerate(builds, 1)][1:]
    return [Paragraph("\n".join(("What the prices of the others are:", *lines)))] if lines else []


def purchases(build: Build) -> list[str]:
    """Return the parts of a machine that are to buy, with their prices."""
    return [
        f"{line.quantity} x {line.name} ({usd(line.usd)}, {basis_words(line)})"
        for line in build.parts
        if line.unit_price_usd
    ]


def _price_of_build(build: Build) -> str:
    """Return the price of a machine in words: basis, day and source of a whole one; of parts how many have which basis,
    and their days; what is to buy for parts that the user has."""
    if any(line.source == OWNED for line in build.parts):
        return f"buy {', '.join(purchases(build)) or 'nothing'}"
    if build.kind == "system":
        line = build.parts[0]
        return f"{basis_words(line)}{f' ({line.source})' if line.source else ''}"
    bought = [line for line in build.parts if line.unit_price_usd]
    quotes = sum(line.price_basis == "quote" for line in bought)
    typical = len(bought) - quotes
    counted = [f"{quotes} quote{'s' if quotes > 1 else ''}"] if quotes else []
    counted += [f"{typical} typical price{'s' if typical > 1 else ''}"] if typical else []
    days = sorted(line.price_observed_on for line in bought if line.price_observed_on is not None)
    if not days:
        return "parts that you have"
    used = ", used parts among them" if any(line.condition == "used" for line in bought) else ""
    when = f"of {days[0]}" if days[0] == days[-1] else f"of {days[0]} to {days[-1]}"
    return f"{' and '.join(counted)}, {when}{used}"


def _machines_table(builds: Sequence[Build], question: Question) -> Table:
    load = question.load
    is_served = load.workload == "serve"
    unit = builds[0].performance.run.unit if builds[0].performance else "tokens/s"
    things = "tokens in and out" if unit == "tokens/s" else unit.removesuffix("/s")
    rows = tuple(_machine_row(i, build, with_first=is_served) for i, build in enumerate(builds, 1))
    first = " first token> |" if is_served else ""
    told = f"first token of a prompt of {load.input_tokens:,} tokens; " if is_served else ""
    return Table(
        columns(
            f"#> | machine~ | price> | {unit}~ |{first} runs as~ | power> | own $/M> | rent $/M> | pays off>"
        ),
        rows,
        title=f"Machines; {told}$ per million {things}, and when buying beats renting",
    )


def _machine_row(rank: int, build: Build, *, with_first: bool) -> tuple[str, ...]:
    run = build.performance
    costs = build.economics
    return (
        str(rank),
        _name_cell(build),
        usd(build.total_usd),
        _speed_cell(run) if run else "does not fit",
        *(
            (MISSING if run is None or run.ttft_s is None else show(run.ttft_s.value, TIME),)
            if with_first
            else ()
        ),
        f"{_run_words(run.run)}{_link_words(build)}" if run else MISSING,
        show(build.power_w, POWER),
        usd(costs.own_usd_per_million_tokens if costs else None),
        usd(costs.rent_usd_per_million_tokens if costs else None),
        payback_words(costs.break_even_days if costs else None),
    )


def _name_cell(build: Build) -> str:
    """Return the name of a build; for a complete system also the rules that it breaks and a doubtful price."""
    missed = (
        [c.rule for c in build.checks if not c.passed and c.rule != "ecc"] if build.kind == "system" else []
    )
    missed += ["price of one page"] if build.rests_on_one_estimate else []
    return f"{build.name} [{', '.join(missed)}]" if missed else build.name


def _speed_cell(run: MachinePerformance) -> str:
    rate = run.decode_tokens_per_s
    whole = f", {digits(run.output_tokens_per_s.value)} with prompts" if prompts_count(run) else ""
    return f"{digits(rate.value)} ({range_words(rate.low, rate.high)}){whole}"


def _run_words(run: HardwareRun) -> str:
    waiting = f", {run.num_waiting} streams wait" if run.num_waiting else ""
    return f"{run.engine} {run.weight_dtype}, {run.split}{waiting}"


def _link_words(build: Build) -> str:
    """Return over which link the cards of a machine divide every layer; empty where they do not."""
    run = build.performance
    hardware = hardware_of(build.machine) if build.machine is not None else None
    if run is None or hardware is None or run.run.tensor_parallel < 2 or hardware.pcie_lanes is None:
        return ""
    pcie = f"PCIe {hardware.pcie_generation}.0 x{hardware.pcie_lanes}"
    return f" over {'NVLink' if hardware.bridged else pcie}"


def payback_words(days: float | None) -> str:
    """Return how long a machine takes to pay off; a dash where it never does."""
    if days is None:
        return MISSING
    return f"{days / 365:.1f} years" if days >= 365 else f"{days:.0f} days"


def _frontier_chart(builds: Sequence[Build]) -> list[Block]:
    """Return the chart of price against speed; digits are the ranks of the table."""
    points = [
        Datum(
            build.total_usd,
            build.performance.decode_tokens_per_s.value,
            build.performance.decode_tokens_per_s.low,
            build.performance.decode_tokens_per_s.high,
            label=build.name,
            mark=str(rank)[-1],
        )
        for rank, build in enumerate(builds, 1)
        if build.performance is not None
    ]
    if len(points) < 2:
        return []
    chart = Chart(
        kind="scatter",
        title="What the money buys",
        x=Axis("price", "USD", hint="left is cheaper"),
        y=Axis("output tokens/s", hint="up is faster"),
        series=(Series("machines", tuple(points)),),
        description="Output tokens per second of each machine against its price; the number is its rank in the table.",
        is_in_terminal=False,
    )
    return [chart]


def machine_blocks(build: Build, *, explain: bool) -> list[Block]:
    """Return one machine: bill, what it runs, what it costs, rules that it breaks or (explained) all of them."""
    blocks: list[Block] = [bill_table(build, is_planned=True)]
    if build.performance is not None:
        blocks += performance_blocks(build.performance, explain=explain)
    if build.economics is not None:
        blocks.append(Paragraph(economics_words(build)))
    shown = [check for check in build.checks if explain or not check.passed]
    if shown:
        kept = sum(check.passed for check in build.checks)
        blocks.append(checks_table(shown, f"Rules: {kept} of {len(build.checks)} kept"))
    if build.machine is not None:
        blocks.append(Paragraph(wiring_words(build.machine, build.checks)))
    if build.note:
        blocks.append(Paragraph(f"Note: {build.note}."))
    return blocks


def wiring_words(machine: Assembly, checks: Sequence[Check]) -> str:
    """Return how to build a machine: slot and cables of each card, the supplies, what the place must bear, and which
    models it holds."""
    lines = slot_words(machine)
    facts = {check.rule: check.why for check in checks}
    frame = machine.case is not None and machine.case.open_frame
    told_rules = ("circuit", "noise") if frame else ("circuit", "noise", "case-airflow")
    place = [facts[rule] for rule in told_rules if rule in facts]
    if place:
        lines.append(f"The place: {'; '.join(place)}.")
    reach = reach_of_machine(machine)
    told = (
        (reach.on_cards, "on the cards"),
        (reach.with_cpu, "partly on the CPU"),
        (reach.not_at_all, "not at all"),
    )
    lines.append(
        "In four bits: " + "; ".join(f"{where} {', '.join(names)}" for names, where in told if names) + "."
    )
    return "\n".join(lines)


def slot_words(machine: Assembly) -> list[str]:
    """Return a line on the slot, the lanes and the cables of each card, and one on the bridge that joins them; none of
    cards on a switch board, which share its slot."""
    riser = machine.risers.riser if machine.risers.num else None
    if riser is not None and riser.ports:
        return []
    wired = wire(machine)
    lines = [_card_words(number, card, machine) for number, card in enumerate(wired, 1)]
    is_assumed = machine.board is not None and "layout_assumed" in machine.board.flags
    return (
        [*lines, bridge_words(machine.bridges[0], wired, is_assumed=is_assumed)] if machine.bridges else lines
    )


def bridge_words(bridge: Bridge, wired: Sequence[CardWiring], *, is_assumed: bool = False) -> str:
    """Return which width of a bridge joins the cards in their slots."""
    if bridge.is_board:
        return f"Its board joins the {bridge.joins} modules."
    widths = " or ".join(map(str, bridge.spacings_slots))
    slots = sorted(card.slot for card in wired if card.slot and not card.on_riser)
    gap = next((below - above for above, below in pairwise(slots)), None)
    if gap is None:
        return f"The NVLink bridge joins both cards, in slots that are {widths} apart."
    if gap in bridge.spacings_slots:
        return f"The NVLink bridge joins both cards: the one for slots that are {gap} apart."
    if is_assumed:
        return (
            f"The NVLink bridge joins cards in slots that are {widths} apart: no source states the places of this "
            "board's slots, so choose two x16 slots with that distance."
        )
    return f"No NVLink bridge is known for slots that are {gap} apart ({widths}): one card needs a riser."


def _card_words(number: int, card: CardWiring, machine: Assembly) -> str:
    where = (
        f"slot {card.slot} (PCIe {card.pcie_generation}.0 x{card.lanes})"
        if card.slot
        else "a slot that no source describes"
    )
    riser = f" on a {machine.risers.riser.name}" if card.on_riser and machine.risers.riser else ""
    cables = []
    if card.num_16_pin:
        cables.append(f"{card.num_16_pin} x 16-pin (12V-2x6)")
    if card.num_8_pin:
        has_six = machine.supplies is not None and any(psu.has_six_pin_leads for psu in machine.supplies.psus)
        each = "each " if card.num_8_pin > 1 else ""
        how = "over adapters from 6-pin leads of the machine" if has_six else f"{each}on a cable of its own"
        plugs = f"{card.num_8_pin} x 8-pin, {how}"
        owner = machine.cards.cards[number - 1] if machine.cards is not None else None
        if machine.board is not None and is_server(machine.board):
            kind = (
                "an 8-pin EPS plug"
                if owner is not None and owner.has_eps_lead
                else f"{card.num_8_pin} x 8-pin"
            )
            plugs = f"{kind}, over the server's own GPU power cable"
        elif owner is not None and owner.has_eps_lead:
            plugs = f"an 8-pin EPS plug, or an adapter from {plugs}"
        cables.append(plugs)
    # Supplies of a server feed one board together.
    is_shared = machine.board is not None and is_server(machine.board)
    supplies = len(machine.supplies.psus) if machine.supplies and not is_shared else 1
    fed = f", from supply {card.supply}" if supplies > 1 else ""
    return f"Card {number}: {where}{riser}; power: {' and '.join(cables) or 'from the slot'}{fed}."


def bill_table(build: Build, title: str = "", *, is_planned: bool = False) -> Table:
    """Return the bill of materials with the basis and the day of each price. A planned part whose price is that of its
    class stands for any like it."""
    rows = [_bill_row(line, is_planned=is_planned) for line in build.parts]
    rows.append(("total", "", "", "", usd_exact(build.total_usd), ""))
    return Table(
        columns("part | n> | name~ | each> | total> | price is~"),
        tuple(rows),
        title=title or f"{build.name}: what to buy",
    )


def _bill_row(line: PartLine, *, is_planned: bool) -> tuple[str, ...]:
    unit = line.unit_price_usd
    is_class = line.price_basis == "estimate" and line.num_listings and line.category != "board"
    like = "like " if is_planned and is_class else ""
    return (
        line.category,
        str(line.quantity),
        like + line.name + (f" [{', '.join(map(words_of, line.flags))}]" if line.flags else ""),
        MISSING if unit is None else usd_exact(unit),
        MISSING if unit is None else usd_exact(line.usd),
        basis_words(line),
    )


def usd_exact(value: float) -> str:
    """Return dollars to the cent, so that the lines of a bill add up."""
    return f"${value:,.2f}"


def basis_words(line: PartLine) -> str:
    if line.price_basis is None:
        return "not known"
    if line.source in (IN_THE_MACHINE, IN_ANOTHER, WITH_OTHERS):
        return line.source
    return price_words(line.price_basis, line.price_observed_on, line.num_listings, line.condition)


def performance_blocks(run: MachinePerformance, *, explain: bool) -> list[Block]:
    lines = [*_speed_lines(run), f"What limits it: {run.bottleneck}."]
    lines += [f"Or with {_run_words(other)}: {_speed_of_run(other)}." for other in run.other_runs]
    if run.finest is not None and _bits(run.finest) > _bits(run.run) + 0.5:
        lines.append(
            f"Most bits that fit: {_run_words(run.finest)}, {_speed(run.finest.output_tokens_per_s)}."
        )
    if not run.qlora_bytes_per_card:
        return [Paragraph("\n".join(lines))]
    beside = f" and {digits(run.qlora_host_bytes / GB)} GB of main memory" if run.qlora_host_bytes else ""
    fits = "fits" if run.qlora_fits else "does not fit"
    largest = (
        f"; the largest of a few dense models that fits: {run.largest_qlora}" if run.largest_qlora else ""
    )
    lines.append(
        f"QLoRA of this model needs up to {digits(run.qlora_bytes_per_card / GB)} GB of each card{beside} "
        f"({run.qlora_split}): {fits}{largest}."
    )
    blocks: list[Block] = [Paragraph("\n".join(lines))]
    if run.power_points and explain:
        rows = tuple(
            (
                percent(p.power_fraction),
                show(p.power_w, POWER),
                digits(p.output_tokens_per_s),
                digits(p.output_tokens_per_joule, 2),
            )
            for p in run.power_points
        )
        blocks.append(
            Table(
                columns("limit> | wall> | tokens/s> | tokens/J>"),
                rows,
                title="Under a power limit of the cards",
            )
        )
    return blocks


def _speed_of_run(run: HardwareRun) -> str:
    first = "" if run.ttft_s is None else f", first token after {show(run.ttft_s, TIME)}"
    return f"{_speed(run.output_tokens_per_s)}{first}"


def _bits(run: HardwareRun) -> float:
    return BITS_PER_BYTE * bytes_per_element(run.weight_dtype)


def _speed_lines(run: MachinePerformance) -> list[str]:
    if run.run.on_cpu and run.ttft_s is None:
        return [
            f"Decoding: {_speed(run.decode_tokens_per_s)} with {_run_words(run.run)}; the time to first token is not "
            "predicted: no record states how fast CPUs compute prompts.",
        ]
    if run.run.unit != "tokens/s":
        seconds = f"{digits(1.0 / run.decode_tokens_per_s.value)} s for each"
        return [
            f"Makes {_speed(run.decode_tokens_per_s, run.run.unit)} with {_run_words(run.run)}: {seconds}."
        ]
    if run.ttft_s is None:
        return [
            f"Trains {_speed(run.decode_tokens_per_s)} with QLoRA, {run.run.split}; "
            f"{digits(run.run.weight_bytes_per_card / GB)} GB of each card."
        ]
    return [
        f"Decoding: {_speed(run.decode_tokens_per_s)} with {_run_words(run.run)}; whole requests: "
        f"{_speed(run.output_tokens_per_s)}; first token after {show_quantity(run.ttft_s, TIME)}.",
        f"Weights {digits(run.run.weight_bytes_per_card / GB)} GB per card, cache for {run.run.kv_tokens:,} tokens"
        + (f": {run.run.num_waiting} of the streams wait for a place in it." if run.run.num_waiting else "."),
    ]


def economics_words(build: Build) -> str:
    costs = build.economics
    assert costs is not None
    lines = [
        f"Owning costs {usd(costs.own_usd_per_hour)} an hour of work ({usd(costs.energy_usd_per_hour)} of it "
        f"electricity), sold for {usd(costs.resale_usd)} at the end."
    ]
    rent = costs.rent
    if rent is None:
        lines.append("Nothing in the price table is as fast.")
    else:
        even = "never pays off"
        if costs.break_even_hours is not None:
            days = payback_words(costs.break_even_days)
            even = f"pays off after {costs.break_even_hours:,.0f} hours, {days} at the stated use"
        lines.append(
            f"The cheapest to rent that is as fast: {rent.num} x {rent.accelerator}, {usd(rent.usd_per_hour)} an hour "
            f"({rent.offer}, {rent.observed_on}); buying {even}."
        )
    return "\n".join(lines)


def checks_table(checks: Sequence[Check], title: str) -> Table:
    """Return a table of rules with their measured values."""
    rows = tuple(
        (check.rule, _verdict(check), check.why, "" if check.passed else check.remedy) for check in checks
    )
    return Table(columns("rule | verdict | why~ | remedy~"), rows, title=title)


def _verdict(check: Check) -> str:
    return "BROKEN" if check.verdict == "broken" else check.verdict


def _question_words(question: Question) -> str:
    """Return the question as it was understood, defaults included."""
    load = question.load
    use = question.use
    setting = question.setting
    asked = (
        f"{load.concurrency} stream{'s' if load.concurrency > 1 else ''} of {load.input_tokens} tokens in, "
        f"{load.output_tokens} out"
    )
    if load.workload == IMAGES:
        image = usual_image(load.model)
        frames = f", {image.frames} frames" if image.frames > 1 else ""
        asked = f"{load.concurrency} at once of {image.width} x {image.height} in {image.steps} steps{frames}"
    elif load.workload != "serve":
        asked = f"sequences of {load.context_tokens} tokens"
    return (
        f"Asked: {asked}; {setting.circuit} circuit, {setting.min_lanes} lanes a card; "
        f"{digits(use.hours_per_day)} hours a day for {digits(use.years)} years, "
        f"${use.usd_per_kwh:.3g} per kWh, resale value {use.resale_fraction:.0%} of the price."
    )


def _search_words(found: PlanResult) -> str:
    """Return how many candidates the optimizer chose among, how exact it is, and what the signs mean."""
    left_out = sum(found.unpriced.values())
    gap = max(build.optimality_gap for build in found.builds)
    return (
        f"Optimality gap {gap:.2%} over {found.num_binaries} candidates under {found.num_inequalities} inequalities; "
        f"{left_out} parts without a price were left out. Prices in USD, before tax.\n{LEGEND}"
    )


def price_warnings(builds: Sequence[Build], as_of: datetime.date) -> tuple[str, ...]:
    """Return warnings about old or thin prices of the given workstations."""
    lines = [line for build in builds for line in build.parts if line.price_observed_on is not None]
    old = [line for line in lines if (as_of - _day(line)).days > STALE_AFTER_DAYS]
    found = []
    if old:
        oldest = min(_day(line) for line in old)
        found.append(
            f"{len(old)} of {len(lines)} prices are more than {STALE_AFTER_DAYS} days old on {as_of}, the oldest of "
            f"{oldest}: check before you buy, or use --price-file"
        )
    found += [
        f"the price of {build.name} is the estimate of one page ({build.parts[0].source}): look at sold listings first"
        for build in builds
        if build.rests_on_one_estimate
    ]
    found += [
        f"{build.name} has second-hand parts: without warranty, at prices of what others paid; test them before you pay"
        for build in builds
        if build.kind == "parts" and (build.is_used or _has_used_host(build))
    ]
    missing = [line.name for build in builds for line in build.parts if line.unit_price_usd is None]
    if missing:
        found.append(f"no price is known for {', '.join(missing)}: the total leaves them out")
    return tuple(found)


def _has_used_host(build: Build) -> bool:
    """Whether a machine of parts stands in one that is sold second-hand as a whole."""
    board = build.machine.board if build.machine is not None else None
    return board is not None and bool(board.sold_with)


def speed_warnings(*builds: Build) -> tuple[str, ...]:
    """Return a warning if speeds of workstations are taken from other hardware; empty otherwise."""
    assumed: dict[str, None] = {}
    for build in builds:
        run = build.performance
        if run is None or run.decode_tokens_per_s.basis != "assumed":
            continue
        surer = [other for other in run.other_runs if other.output_tokens_per_s.basis != "assumed"]
        words = f" ({_run_words(surer[0])} is surer: {_speed(surer[0].output_tokens_per_s)})" if surer else ""
        assumed[f"{run.run.engine} {run.run.weight_dtype} on {build.name}{words}"] = None
    if not assumed:
        return ()
    return (f"not measured, taken from related hardware with a wide range: {', '.join(assumed)}",)


def _day(line: PartLine) -> datetime.date:
    assert line.price_observed_on is not None
    return line.price_observed_on

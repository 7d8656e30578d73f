"""Parts of the catalog that the lines of a list mean, by kind of part."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from advisor.catalog import accelerators, parts
from advisor.catalog.cpu_names import cpu_by_number, find_cpus, plain_words
from advisor.catalog.part_prices import PriceBook
from advisor.catalog.schema.part import (
    FIGURES_ASSUMED,
    PLUG_UNKNOWN_OF_DRIVE,
    PLUGS_UNKNOWN,
    Board,
    Bridge,
    Case,
    Cooler,
    Cpu,
    GpuCard,
    Nic,
    Part,
    Psu,
    PsuLink,
    RamKit,
    Riser,
    Storage,
)
from advisor.catalog.units import GB
from advisor.workstation.assembly import SERVER, TYPICAL, Risers
from advisor.workstation.card_names import find_card_name
from advisor.workstation.foreign_words import regex, word_table
from advisor.workstation.mentions import rated_watts
from advisor.workstation.part_names import (
    WORDS,
    PartT,
    UnknownPartError,
    accelerator_of,
    all_by_words,
    ambiguous_part,
    as_described,
    board_by_chipset,
    board_by_number,
    by_words,
    display_card_in,
    grades_in,
    is_bare,
    kit_of,
    link_in,
    named_supply,
    names_a_model,
    num_extra_words,
    other_series,
    pair_of,
    psu_of,
    series_without_record,
    server_in,
    typical_card,
    unknown_part,
    usual_riser,
    watts_of_label,
)
from advisor.workstation.system_names import find_systems, with_memory, with_other_memory
from advisor.workstation.typed_line import TypedLine, number_in

_LEAD: Final = re.compile(rf"\b(?:{'|'.join(WORDS['link'])})\b", re.IGNORECASE)
"""Lead that starts a second supply, named with the supply."""
PAIRED_SOCKETS: Final = frozenset(("SP3", "SP5", "LGA2011", "LGA2011-3", "LGA3647", "LGA4189", "LGA4677"))
"""Sockets of which boards with two are sold."""
_FRAME_TERMS: Final = word_table("overlooked")["frame"]
"""Words of an open frame that name no model."""
_CARDS_OF_A_SUPPLY: Final = 4
"""Cards of an open frame for which it has a place for a supply (class of frames for 6, 8 and 12 cards)."""


def _sockets_of(part: Part) -> set[str]:
    """Return the sockets on which a cooler mounts, as people write them; none of any other part."""
    names = {name.lower() for name in part.sockets} if isinstance(part, Cooler) else set()
    return (
        names
        | ({"tr5"} if "str5" in names else set())
        | ({"tr4"} if names & {"str4", "strx4", "sp3"} else set())
    )


def _are_alike(found: Sequence[Part]) -> bool:
    """Whether several parts have the same figures, as editions of one product in several colours do."""
    unread = {"id", "name", "manufacturer", "flags", "source"}
    return len(found) > 1 and all(
        one.model_dump(exclude=unread) == found[0].model_dump(exclude=unread) for one in found
    )


def _is_kit(named: RamKit, stated: RamKit) -> bool:
    """Whether a product's kit is of the size and the kind that a line states."""
    wanted = (stated.modules, stated.module_bytes, stated.ram_type, stated.registered)
    return (named.modules, named.module_bytes, named.ram_type, named.registered) == wanted


class PartReader:
    """Reader of the part that a line names, with what the lines before it tell: board, memory, cards."""

    def __init__(self, book: PriceBook) -> None:
        self._book = book
        self._notes: list[str] = []
        self._unknown: list[UnknownPartError] = []
        self._unjudged: list[str] = []
        self._machine: dict[str, Any] = {}
        self._power_fraction = 1.0
        self._has_unnamed_cards = False
        """Whether a line names a card by its accelerator alone, which several makers sell in several sizes."""
        self._ram_type = ""
        """Kind of module that a line of the list names; empty if none does."""
        self._num_cpus = 0
        """Number of CPUs in the list, known or not."""

    def note(self, line: TypedLine, part: Part) -> None:
        self._notes.append(f"{line.what!r} is taken as {part.name}")

    @property
    def board(self) -> Board | None:
        return self._machine.get("board")

    @property
    def cpu(self) -> Cpu | None:
        return self._machine.get("cpu")

    def _joined_cpu(self) -> Cpu | None:
        """Return two CPUs as one where a board has two sockets, or is unknown and the CPU is a server's."""
        cpu = self.cpu
        board = self.board
        if cpu is None or self._num_cpus != 2:
            return cpu
        is_known = board is not None and not {FIGURES_ASSUMED, TYPICAL} & set(board.flags)
        is_pair = (
            board.sockets == 2 if is_known and board is not None else cpu.series.socket in PAIRED_SOCKETS
        )
        return pair_of(cpu) if is_pair else cpu

    def gpu(self, line: TypedLine) -> tuple[Part | None, int]:
        accelerator = accelerator_of(line)
        cards = [card for card in parts.planner_parts(GpuCard) if card.accelerator == accelerator]
        # A card of the same name with a radiator is another product.
        if regex("name.radiator").search(line.what) is None:
            cards = [card for card in cards if regex("name.radiator").search(card.name) is None] or cards
        maker = [card for card in cards if card.manufacturer.lower() in plain_words(line.what).split()]
        # The size tells the accelerator, which is found: makers write it in several ways.
        text = regex("part.founders").sub("Founders Edition", line.what)
        words = regex("mention.gigabytes").sub(" ", text)
        # Makers sell one cooler with two clocks, of which the catalog may have either.
        spelled = (text, words, regex("name.of_a_clock").sub(" ", words))
        named = next(filter(None, (all_by_words(one, cards) for one in spelled[1:])), [])
        tells_none = len(cards) > 1 and len(named) in (0, len(cards))
        card = typical_card(maker or cards)
        if not tells_none:
            card = next(filter(None, (by_words(one, cards) for one in spelled)), card)
        lacking = series_without_record(line.what, card, "gpu")
        self._has_unnamed_cards |= tells_none or (len(cards) > 1 and bool(lacking))
        if lacking:
            card = self._neighbour(line, typical_card(maker or cards))
        else:
            self.note(line, card)
        name = find_card_name(line.what)
        able = [accelerators.by_id(one) for one in (name.accelerators if name is not None else ())]
        if len(able) > 1:
            what = "edition" if len({one.memory_bytes for one in able}) == 1 else "memory"
            others = " or ".join(one.name for one in able if one.id != accelerator)
            judged = accelerators.by_id(accelerator).name
            self._notes.append(f"{line.what!r} leaves the {what} open: {judged} is judged, not {others}")
        self._note_links(line, accelerator)
        link = link_in(line.what, usual_riser())
        if link is not None:
            old = self._machine.get("risers", Risers(link, 0))
            # Of docks with unlike links, the slowest holds all cards back.
            slowest = min(old.riser, link, key=lambda one: (one.pcie_generation, one.lanes))
            self._machine["risers"] = Risers(slowest, 1 if link.ports else old.num + line.quantity)
            self._notes.append(
                f"{line.what!r}: speeds take the link of: {link.name}; its case and supply are not judged"
            )
        elif regex("part.on_risers").search(line.what):
            self._machine.setdefault("risers", Risers(self._riser_in(line), line.quantity))
        self._note_power_limit(line, card)
        return as_described(card, line.what), line.quantity

    def display(self, line: TypedLine) -> tuple[Part | None, int]:
        card = display_card_in(line)
        if card is not None:
            self._notes.append(
                f"{line.what!r} is taken as {card.name}, a card for a screen: it takes {card.slots} slot"
                f"{'s' if card.slots > 1 else ''} and {card.power_w:.0f} W, and runs no model here"
            )
        return card, line.quantity

    def _note_power_limit(self, line: TypedLine, card: GpuCard) -> None:
        """Take the power limit that a line states for its cards; of several lines, the strictest counts for all."""
        stated = regex("part.power_limit").search(line.text)
        part = regex("part.power_percent").search(line.text) if stated is None else None
        watts = float(next(filter(None, stated.groups()))) if stated is not None else card.power_w
        if part is not None:
            watts = float(next(filter(None, part.groups()))) / 100.0 * card.power_w
        if 0.3 * card.power_w <= watts < card.power_w:
            self._power_fraction = min(self._power_fraction, watts / card.power_w)
            self._notes.append(
                f"{line.text.strip()!r}: all cards count as held to {self._power_fraction:.0%} of their power"
            )

    def _note_links(self, line: TypedLine, accelerator: str) -> None:
        """Say that NVLink which a line names is not counted: no bridge fits the card, or no engine would use it."""
        able = {name for bridge in parts.planner_parts(Bridge) for name in bridge.accelerators}
        is_named = regex("piece.bridge_words").search(line.text) and not regex("piece.no_bridge").search(
            line.text
        )
        if not is_named or accelerator in able:
            return
        record = accelerators.by_id(accelerator)
        self._notes.append(
            f"{line.text.strip()!r}: NVLink of {record.name} changes no speed here: no record has a bridge for it"
        )

    def system(self, line: TypedLine) -> tuple[Part | None, int]:
        systems = find_systems(line.what)
        found = with_memory(line.what, systems) or with_other_memory(line.what, systems)
        if not found:
            raise UnknownPartError(
                line.where,
                f"machine {line.what!r}",
                why="no record has this memory",
                fix="write its full name",
                hint=", ".join(system.name for system in systems),
            )
        if len(found) > 1:
            raise ambiguous_part(line, "machine", [system.name for system in found])
        self.note(line, found[0])
        return found[0], line.quantity

    def bridge(self, line: TypedLine) -> tuple[Part | None, int]:
        sold = parts.planner_parts(Bridge)
        held = {card.accelerator for card in self._machine.get("cards", ())}
        bridge = next((one for one in sold if held & set(one.accelerators)), sold[0])
        spacing = regex("part.bridge_spacing").search(line.what)
        if spacing is not None:
            slots = int(spacing.group(1))
            name = f"{bridge.name}, {slots} slots"
            bridge = bridge.model_copy(update={"name": name, "spacings_slots": (slots,)})
        self.note(line, bridge)
        num_cards = len(self._machine.get("cards", ()))
        count = -(-num_cards // bridge.joins) if bridge.is_board and num_cards else line.quantity
        return bridge, count

    def cpu_(self, line: TypedLine) -> tuple[Part | None, int]:
        socket = self.board.socket if self.board is not None else ""
        alike = find_cpus(line.what, is_labelled=True, socket=socket, ram_type=self._ram_type)
        cpu = next(iter(alike), None) or cpu_by_number(line.what)
        if cpu is None:
            pool = (*parts.planner_parts(Cpu), *parts.parts_for_lists(Cpu))
            raise unknown_part(line, "CPU", [cpu.name for cpu in pool])
        if not set(plain_words(line.what).split()) <= set(plain_words(cpu.name).split()):
            self.note(line, cpu)
        other = next((one for one in alike if one.series.socket != cpu.series.socket), None)
        if other is not None and cpu.series.socket != socket:
            self._notes.append(
                f"{line.what!r} is taken as {cpu.name} ({cpu.series.socket}): name the board or the family if it is "
                f"{other.name} ({other.series.socket})"
            )
        return cpu, line.quantity

    def board_(self, line: TypedLine) -> tuple[Part | None, int]:
        server = server_in(line.what)
        if server is not None:
            self.note(line, server)
            return parts.with_line_lanes(server), 1
        plain = regex("name.revision").sub(" ", line.what).split()
        words = " ".join(word for word in plain if word.lower() not in (*WORDS["board"], "dual"))
        board = board_by_chipset(line.what, self._ram_type)
        bare = [board.chipset.lower(), board.socket.lower()] if board is not None else []
        bare += [f"{name}{size}" for name in bare[:1] for size in "mi"] + ["d4", "d5"]
        if board is None or names_a_model(words, *bare):
            board = self._named_board(line, words) or board_by_number(line.what, self._ram_type)
        if board is None:
            if is_bare(line.what, "board"):
                return None, 1
            raise unknown_part(line, "board", [board.name for board in parts.planner_parts(Board)])
        self.note(line, board)
        return parts.with_line_lanes(board), 1

    def _named_board(self, line: TypedLine, words: str) -> Board | None:
        """Return the board of that name; another maker's board with the same chipset does not count."""
        pool = (*parts.planner_parts(Board), *parts.parts_for_lists(Board))
        found = all_by_words(words, pool, strict=True)
        # A board of a smaller form factor writes it behind its chipset: a B850M-P is no B850-P.
        named = set(plain_words(line.what).split())
        found = [
            one for one in found if set(regex("part.small_form").findall(plain_words(one.name))) <= named
        ]
        # Boards of one name are sold for either kind of modules: the list's memory tells which.
        found = [board for board in found if board.ram_type == self._ram_type] or found
        if len({(board.socket, board.chipset, board.ram_type) for board in found}) > 1:
            raise ambiguous_part(line, "board", [one.name for one in found])
        # Of several editions, the one whose name adds least is meant; a record that the planner uses tells more.
        found.sort(key=lambda board: (num_extra_words(board, f"{words} wifi"), not board.id, board.name))
        others = (one.name for one in found[1:] if num_extra_words(found[0], one.name))
        if found and num_extra_words(found[0], words) and (other := next(others, None)) is not None:
            self._notes.append(f"{line.what!r} can be {other} too: write the full name if it is")
        return found[0] if found else None

    def psu(self, line: TypedLine) -> tuple[Part | None, int]:
        claimed = regex("name.plug_claim").search(line.what)
        if claimed is not None:
            line = replace(line, what=" ".join(regex("name.plug_claim").sub(" ", line.what).split()))
        if _LEAD.search(line.what):
            self._machine.setdefault("link", [parts.planner_parts(PsuLink)[0]])
            line = replace(line, what=" ".join(_LEAD.sub(" ", line.what).split()))
        grades = grades_in(line.what)
        pools = (
            [psu for psu in pool if not grades or psu.grade in grades]
            for pool in (parts.planner_parts(Psu), parts.parts_for_lists(Psu))
        )
        found = next((alike for pool in pools if (alike := all_by_words(line.what, pool))), [])
        if len({psu.power_w for psu in found}) > 1:
            raise ambiguous_part(line, "supply", [one.name for one in found])
        named = min(found, key=lambda psu: (len(psu.name), psu.name), default=None)
        watts = rated_watts(line.what) or (watts_of_label(line.what) if line.category == "psu" else 0.0)
        if named is None and not watts:
            if is_bare(line.what, "psu"):
                return None, line.quantity
            raise unknown_part(line, "supply", [psu.name for psu in parts.planner_parts(Psu)])
        is_own = (
            self.board is not None and SERVER in self.board.flags
        )  # a server's supply is sold for it alone
        is_model = is_own or names_a_model(line.what)
        psu = named or (named_supply(watts, line) if is_model else psu_of(watts, line))
        if is_own and named is None and not grades:
            psu = psu.model_copy(update={"grade": "platinum", "flags": (PLUGS_UNKNOWN,)})
        if claimed is not None:
            psu = psu.model_copy(update={"num_16_pin": number_in(claimed.group(1))})
        self.note(line, psu)
        return psu, line.quantity

    def ram(self, line: TypedLine) -> tuple[Part | None, int]:
        kit = kit_of(line, self.board, self._joined_cpu())
        named = by_words(line.what, parts.planner_parts(RamKit)) if names_a_model(line.what) else None
        states_rate = regex("name.memory_speed").search(line.what.lower()) is not None
        is_other = kit is not None and states_rate and named is not None and named.speed_mts != kit.speed_mts
        if named is not None and not is_other and (kit is None or _is_kit(named, kit)):
            kit = named  # a product's kit of another size or kind is not the one that the line states
        if kit is None:
            return None, line.quantity
        self.note(line, kit)
        return kit, line.quantity

    def storage(self, line: TypedLine) -> tuple[Part | None, int]:
        match = regex("mention.gigabytes").search(line.what)
        if regex("part.disk").search(line.what):
            return None, line.quantity  # no rule reads disks
        found = all_by_words(line.what, (*parts.planner_parts(Storage), *parts.parts_for_lists(Storage)))
        if match is None and len({drive.capacity_bytes for drive in found}) > 1:
            raise ambiguous_part(line, "drive", [one.name for one in found])
        named = min(found, key=lambda drive: (len(drive.name), drive.name), default=None)
        if named is None and match is None:
            return None, line.quantity
        drive = named
        if drive is None and match is not None:
            size = float(match.group(2)) * (1000 if match.group(3).lower() == "tb" else 1) * GB
            drive = Storage(
                id="typed-drive",
                name=line.what,
                capacity_bytes=size,
                pcie_generation=4,
                flags=() if regex("part.is_m2").search(line.what) else (PLUG_UNKNOWN_OF_DRIVE,),
                source="your list",
            )
        return drive, line.quantity

    def case_(self, line: TypedLine) -> tuple[Part | None, int]:
        if regex("part.no_case").search(line.what):
            return None, line.quantity  # cards stand in the board's slots, with nothing around them
        if regex("name.frame_words").search(line.what):
            frames = [case for case in parts.planner_parts(Case) if case.open_frame]
            # A maker's frame that no record holds is at least the smallest, or as large as it says.
            is_bare_frame = not names_a_model(line.what, *_FRAME_TERMS)
            stated = regex("part.frame_cards").search(line.what)
            wanted = 3 * int(stated.group(1)) if stated else 0
            able = [case for case in frames if case.expansion_slots >= wanted] or frames
            is_large = bool(stated) and not any(case.expansion_slots >= wanted for case in frames)
            choose = max if is_large or (is_bare_frame and not stated) else min
            frame = choose(able, key=lambda case: case.expansion_slots)
            if (
                regex("part.own_frame").search(line.what) and not stated
            ):  # its builder makes it as large as the machine
                frame = frame.model_copy(update={"expansion_slots": 40, "num_psus": 4})
            if is_large:  # frames have a place for a supply for every four cards
                num_psus = max(frame.num_psus, -(-wanted // (3 * _CARDS_OF_A_SUPPLY)))
                frame = frame.model_copy(update={"expansion_slots": wanted, "num_psus": num_psus})
            if not is_bare_frame:
                frame = by_words(line.what, parts.planner_parts(Case), strict=True) or frame
            self.note(line, frame)
            return frame, line.quantity
        bare = regex("part.rack").sub(" ", line.what)
        if bare != line.what and not names_a_model(bare, "rack", "server", "rackmount"):
            return None, line.quantity  # no record states the room of a chassis that has only a height
        # A height beside the name of a chassis tells nothing more.
        pool = [*parts.planner_parts(Case), *parts.parts_for_lists(Case)]
        named = replace(line, what=" ".join(bare.split()))
        return self.by_name(Case, "case", named if by_words(named.what, pool) is not None else line)

    def nic(self, line: TypedLine) -> tuple[Part | None, int]:
        found = by_words(line.what, parts.planner_parts(Nic))  # no rule needs one that no record holds
        if found is not None:
            self.note(line, found)
        return found, line.quantity

    def cooler_(self, line: TypedLine) -> tuple[Part | None, int]:
        if regex("name.loop_words").search(line.what) and not regex("part.all_in_one").search(line.what):
            return None, line.quantity
        return self.by_name(Cooler, "cooler", line)

    def riser_(self, line: TypedLine) -> tuple[Part | None, int]:
        link = link_in(line.what, usual_riser(is_narrow=regex("part.one_lane").search(line.what) is not None))
        if link is not None:
            return link, line.quantity
        count = line.quantity
        cards = len(self._machine.get("cards", ()))
        width = regex("part.width").search(line.text)
        if width is not None and cards and count == int(width[1]) > cards:
            count = 1  # more risers than cards are the lanes of each: `risers x16`
        if count == 1 and regex("part.several_risers").search(line.text):
            count = max(1, cards)  # "risers" without a number are those of all cards
        return self._riser_in(line), count

    @staticmethod
    def _riser_in(line: TypedLine) -> Riser:
        """Return the cable that a line names, with the generation and the length that it states."""
        generation = regex("part.generation").search(line.what)
        length = regex("part.length").search(line.what)
        usual = usual_riser(is_narrow=regex("part.one_lane").search(line.what) is not None)
        figures: dict[str, Any] = {"name": line.what, "id": "typed-riser", "source": "your list"}
        figures["pcie_generation"] = int(generation.group(1)) if generation else usual.pcie_generation
        if length:
            unit = 1000.0 if length.group(2).lower() == "mm" else 100.0
            figures["length_m"] = float(length.group(1)) / unit
        return usual.model_copy(update=figures)

    def by_name(self, kind: type[Part], category: str, line: TypedLine) -> tuple[Part | None, int]:
        pool = [*parts.planner_parts(kind), *parts.parts_for_lists(kind)]
        stated = {word.lower() for word in regex("part.socket").findall(line.what)}
        # A line that states sockets means no part that is made for others.
        pool = [one for one in pool if not stated or _sockets_of(one) & stated or not _sockets_of(one)]
        # Of coolers of one name, the one that mounts on the list's CPU is meant.
        socket = self.cpu.series.socket if self.cpu is not None else ""
        able = [one for one in pool if isinstance(one, Cooler) and socket in one.sockets]
        part = by_words(line.what, able, of_one_series=True) or by_words(line.what, pool, of_one_series=True)
        if part is None and not is_bare(line.what, category):
            raise unknown_part(line, category, [each.name for each in pool])
        if (
            part is not None
            and other_series(part, line.what)
            and not _are_alike(all_by_words(line.what, pool))
        ):
            return self._neighbour(line, part), line.quantity
        if part is not None:
            self.note(line, part)
        return part, line.quantity

    def _neighbour(self, line: TypedLine, part: PartT) -> PartT:
        """Return the part of another product that stands for one without a record, by the name of the line, and say
        so."""
        stands = part.name
        if isinstance(part, GpuCard):
            record = accelerators.by_id(part.accelerator).name
            stands = f"a typical {record} of {part.slots:g} slots and {1000 * part.length_m:.0f} mm"
        self._notes.append(
            f"no record has {line.what!r}: it is judged as {stands}, whose figures are not its own: look up its size "
            "and its plugs"
        )
        return part.model_copy(update={"id": "", "name": line.what, "flags": (*part.flags, TYPICAL)})


RESOLVERS: Final[dict[str, Callable[[PartReader, TypedLine], tuple[Part | None, int]]]] = {
    "gpu": PartReader.gpu,
    "display": PartReader.display,
    "cpu": PartReader.cpu_,
    "board": PartReader.board_,
    "psu": PartReader.psu,
    "ram": PartReader.ram,
    "storage": PartReader.storage,
    "case": PartReader.case_,
    "cooler": PartReader.cooler_,
    "riser": PartReader.riser_,
    "bridge": PartReader.bridge,
    "system": PartReader.system,
    "nic": PartReader.nic,
    "link": lambda reader, line: (parts.planner_parts(PsuLink)[0], line.quantity),
}

"""Judge a file of any format that is read: what it holds decides what it is compared with."""

from collections.abc import Mapping
from dataclasses import replace

from advisor.ask.server import stated_columns
from advisor.catalog import accelerators
from advisor.catalog.errors import InputFileError
from advisor.catalog.files import DATA_DIR, read_csv
from advisor.catalog.formats.link_report import LinkReport
from advisor.catalog.formats.prometheus_text import ServerMetrics
from advisor.catalog.formats.registry import read, recognise
from advisor.catalog.formats.server_log import ServerLog
from advisor.catalog.schema import Accelerator, Calibration
from advisor.cli.server_around import conditions_around
from advisor.commands.validate.collectives_file import judged_collectives
from advisor.commands.validate.file_view import links_answer, memory_answer, server_answer
from advisor.commands.validate.options import FileInput
from advisor.evidence.own_server import compare_server, device_words, rows_of
from advisor.evidence.server_memory import compare_memory
from advisor.render.answer import Answer
from advisor.render.calibration_view import with_calibration


def judged_file(asked: FileInput, text: str, seed: int, calibration: Calibration | None) -> Answer:
    """Return the verdict on a text in any format that is read.

    Raises: InputFileError: it is in no known format, or lacks what a prediction needs.
    """
    answer, accelerators_of = _answer_of(asked, text, seed, calibration)
    if calibration is not None and not accelerators_of:
        unused = "the calibration is not used: nothing in this file is held against a prediction of speed"
        return replace(answer, warnings=(*answer.warnings, unused))
    return with_calibration(answer, calibration, accelerators_of)


def _answer_of(
    asked: FileInput, text: str, seed: int, calibration: Calibration | None
) -> tuple[Answer, frozenset[str]]:
    """Return the verdict on a text, and the ids of the accelerators whose speed was predicted for it."""
    name = str(asked.file)
    if recognise(text, name).holds == "collectives":
        return judged_collectives(text, asked.file, asked.server.gpu, asked.network, asked.op), frozenset()
    kind, found = read(text, name)
    stated, notes = stated_columns(asked.server)
    inputs = {"file": name, "format": kind.id, "stated": stated}
    if isinstance(found, LinkReport):
        from advisor.probes.link_judgement import judge_links

        judged = judge_links(found, _accelerator(found, stated), asked.network or "")
        return links_answer(judged, inputs, notes), frozenset()
    if isinstance(found, ServerLog):
        around = {} if found.model else conditions_around(text)
        return memory_answer(compare_memory(found, around | stated), found, inputs, notes), frozenset()
    metrics = found if isinstance(found, ServerMetrics) else None
    results = (found.result,) if metrics else found
    is_local = kind.holds == "local benchmark"
    rows = rows_of(results, stated, {} if is_local else conditions_around(text), is_local=is_local)
    compared = [compare_server(row, assumed, calibration=calibration, seed=seed) for row, assumed in rows]
    answer = server_answer(compared, kind.title, inputs, notes, metrics=metrics)
    return answer, frozenset(one.row["gpu"] for one in compared)


def _accelerator(found: LinkReport, stated: Mapping[str, str]) -> Accelerator | None:
    """Return the accelerator that the person names, or that the report's name or PCI id belongs to; None if unknown.

    Raises: InputFileError: the report holds rates alone, and neither says what they are of.
        UnknownNameError: the report names another device.
    """
    if "gpu" in stated:
        return accelerators.by_id(stated["gpu"])
    if found.device:
        words = found.device.lower()
        for name in (device_words(words), device_words(words.replace("tesla ", "")), "-".join(words.split())):
            if (record := accelerators.find(name)) is not None:
                return record
    if found.pci_device_ids:
        rows = read_csv(DATA_DIR / "boards" / "pci_ids.csv", ("pci_id", "accelerator"))
        ids = {row["pci_id"]: row["accelerator"] for _, row in rows}
        if known := ids.get(found.pci_device_ids[0]):
            return accelerators.by_id(known)
    if not found.checks and any(rate.check != "network.port" for rate in found.rates):
        if found.device:
            return accelerators.get(found.device).record
        raise InputFileError("the report does not say which accelerator it is of", fix="--gpu ID")
    return None

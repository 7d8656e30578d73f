"""Turn a probe, or a benchmark of a server, into figures of one machine."""

from dataclasses import fields

from advisor.ask.acts import option_of
from advisor.ask.options import SharedOptions, StatedServer
from advisor.ask.server import stated_columns
from advisor.catalog.errors import AdvisorError, InputFileError
from advisor.catalog.files import read_text
from advisor.catalog.formats.registry import FORMATS, read, recognise
from advisor.cli.server_around import conditions_around
from advisor.commands.calibrate.options import CalibrateInput
from advisor.commands.calibrate.view import calibration_answer, server_calibration_answer
from advisor.probes.calibrate import calibration_of
from advisor.probes.document import read_probe
from advisor.render.answer import Answer

_BENCHMARKS = ("serving benchmark", "server metrics", "local benchmark")


def calibrate(asked: CalibrateInput, shared: SharedOptions) -> Answer:
    """Return a calibration from a probe file or from a benchmark of a server.

    Raises: InputFileError: the file is neither, or holds nothing to calibrate with. AdvisorError: conditions of a
        server are given with a probe.
    """
    text = read_text(asked.file) if asked.file.is_file() else ""
    if text and any(one.is_it(text) for one in FORMATS):
        return _of_server(asked, text, shared)
    if typed := [
        one.name for one in fields(StatedServer) if getattr(asked.server, one.name) not in (None, False)
    ]:
        option = option_of(typed[0])
        raise AdvisorError(
            f"{option} belongs to a benchmark of a server, and {asked.file} is none",
            why="a probe says itself what it measured",
            fix=f"drop {option}, or name a benchmark's result",
        )
    return calibration_answer(calibration_of(read_probe(asked.file)), {"probe": asked.file})


def _of_server(asked: CalibrateInput, text: str, shared: SharedOptions) -> Answer:
    from advisor.evidence.own_server import rows_of
    from advisor.evidence.server_calibration import fit_server

    name = str(asked.file)
    kind = recognise(text, name)
    if kind.holds not in _BENCHMARKS:
        raise InputFileError(
            f"{name}: a {kind.title} holds no times of a server to calibrate with",
            why="a calibration needs latencies or rates of a load",
            fix=f"advisor validate file {name}, or give a benchmark's result",
        )
    _, found = read(text, name)
    stated, notes = stated_columns(asked.server)
    if kind.holds == "server metrics":
        found = (found.result,)
    is_local = kind.holds == "local benchmark"
    rows = rows_of(found, stated, {} if is_local else conditions_around(text), is_local=is_local)
    fitted = fit_server(rows, measured_on=rows[0][0].get("date", ""), seed=shared.seed)
    return server_calibration_answer(fitted, kind.title, {"file": name, "stated": stated}, notes)

"""Run a study: its points, the journal of what is finished, the workers, and the table in the end."""

import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from advisor.ask.options import SharedOptions
from advisor.catalog.errors import AdvisorError, InputFileError, MissingHardwareError, install_command
from advisor.cli.notes import note, progress, tell_interrupted, warn
from advisor.commands.sweep.identity import header_of, keep_snapshot, open_journal
from advisor.commands.sweep.options import SweepInput
from advisor.commands.sweep.targets import ask, fields_of, installed_versions, targets
from advisor.commands.sweep.view import sweep_answer
from advisor.render.answer import Answer
from advisor.render.document import pick_attributes
from advisor.render.numbers import TIME, show
from advisor.sweep.execution import Workers, outcomes, runs_processes, usable_processes
from advisor.sweep.fields import Value
from advisor.sweep.journal import Header, Journal, Row, journal_path
from advisor.sweep.points import SweepPoint, points_of
from advisor.sweep.study import Study, read_study
from advisor.sweep.table import read_table, with_numbers

_RESULTS: Final = (".csv", ".parquet")


def sweep(asked: SweepInput, shared: SharedOptions) -> Answer:
    """Ask every point of a study that is not finished yet, or summarise what a sweep wrote; the answer is the table.

    Raises: AdvisorError and its kinds: a mistake in the study, no output, an interrupted sweep is in the way, or the
        cluster does not answer.
    """
    if asked.file.suffix.lower() != ".toml":
        return _answer_summary(asked)
    if shared.output is None:
        raise AdvisorError("a sweep needs a file for its results", fix="-o results.parquet or -o results.csv")
    study = read_study(asked.file, tuple(targets()), fields_of)
    path = journal_path(shared.output)
    header, kept = open_journal(path, asked, header_of(study.command, shared))
    points, num_doubles = _points(study, header, shared)
    _check_inputs(points, study.command, shared.output, path)
    if num_doubles and not shared.quiet:
        warn(f"{num_doubles} points are named more than once; each is asked once")
    rows = {point.id: kept.rows[point.id] for point in points if point.id in kept.rows}
    if rows and not shared.quiet:
        note(f"{len(rows)} of {len(points)} points are kept from {path}")
    if len(rows) < len(kept.rows):
        warn(
            f"{len(kept.rows) - len(rows)} kept points are not of this study: it or a file of it has changed"
        )
    waiting = [point for point in points if point.id not in rows]
    workers = _workers(asked, len(waiting))
    with Journal(path, header, keep=bool(kept.rows)) as journal:
        if not kept.rows:
            keep_snapshot(path)
        for point_id, row in _watch_outcomes(study.command, waiting, workers, len(points), shared, path):
            journal.add(point_id, row)
            rows[point_id] = row
        journal.complete()
    table = with_numbers([{"id": point.id, **rows[point.id]} for point in points])
    return sweep_answer(
        table,
        _objectives(asked, study, table),
        inputs=_inputs(study, header),
        command=study.command,
        strict=False,
    )


def _answer_summary(asked: SweepInput) -> Answer:
    """Return the best points of results that a sweep wrote.

    Raises: InputFileError: the file is no results. AdvisorError: an objective is unknown or none is given.
    """
    if asked.file.suffix.lower() not in _RESULTS:
        raise InputFileError(
            f"{asked.file}: neither a study nor results",
            why="a study is a .toml file",
            fix="results end in .csv or .parquet",
        )
    table = read_table(asked.file)
    if asked.pareto is not None:
        objectives = _split(asked.pareto)
    else:
        known = [
            t.pareto
            for t in targets().values()
            if t.pareto and all(o.split()[1] in table[0] for o in t.pareto)
        ]
        objectives = known[0] if known else ()
    return sweep_answer(
        table, objectives, inputs={"file": asked.file, "pareto": objectives}, command="", strict=True
    )


def _points(study: Study, header: Header, shared: SharedOptions) -> tuple[tuple[SweepPoint, ...], int]:
    common: dict[str, Value] = {"seed": header.seed, "as_of": header.as_of}
    if shared.calibration is not None:
        common["calibration"] = str(shared.calibration.resolve())
    if shared.offline:
        common["offline"] = True
    return points_of(study, fields_of(study.command), common)


def _check_inputs(points: Sequence[SweepPoint], command: str, *written: Path) -> None:
    """Refuse to write over a file that the study reads.

    Raises: AdvisorError: it would.
    """
    read = {
        str(value)
        for point in points
        for name, value in point.options.items()
        if fields_of(command)[name].kind is Path
    }
    for path in written:
        if any(Path(name).exists() and path.exists() and path.samefile(name) for name in read):
            raise AdvisorError(
                f"{path} is a file that the study reads", why="it would be overwritten", fix="another -o"
            )


def _workers(asked: SweepInput, num_waiting: int) -> Workers:
    if asked.cluster is not None:
        if asked.workers is not None:
            raise AdvisorError(
                "--workers and --cluster exclude each other", fix="the cluster has its own workers"
            )
        from advisor.sweep.cluster import cluster_backend, streams

        return Workers(0, cluster_backend(asked.cluster, installed_versions), streams(asked.cluster))
    count = asked.workers or usable_processes()
    if min(count, num_waiting) <= 1:
        return Workers(1)
    if runs_processes():
        return Workers(count)
    if asked.workers is not None:
        raise MissingHardwareError(
            "several processes need joblib",
            why="it is not installed",
            fix=f"{install_command('sweep', 'joblib')}, or --workers 1",
        )
    note(f"one process asks all points: several need joblib, {install_command('sweep', 'joblib')}")
    return Workers(1)


def _watch_outcomes(
    command: str, waiting: list[SweepPoint], workers: Workers, total: int, shared: SharedOptions, path: Path
) -> Iterator[tuple[str, Row]]:
    """Yield outcomes with a progress line; an interruption says where the finished points are."""
    done = 0
    started_s = time.monotonic()
    if not waiting:
        return
    with progress(quiet=shared.quiet) as line, _interrupt_on_termination():
        try:
            for outcome in outcomes(partial(ask, command), waiting, workers):
                yield outcome
                done += 1
                left_s = (time.monotonic() - started_s) / done * (len(waiting) - done)
                line(f"{total - len(waiting) + done} of {total} points, {show(left_s, TIME)} left")
        except (KeyboardInterrupt, GeneratorExit):
            line.clear()
            kept = total - len(waiting) + done
            tell_interrupted(f"{kept} of {total} points are kept in {path}: --resume goes on")
            raise


@contextmanager
def _interrupt_on_termination() -> Iterator[None]:
    """Let `kill` end a sweep as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _objectives(asked: SweepInput, study: Study, table: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return the typed objectives, or the command's own objectives if its rows have their columns."""
    if asked.pareto is not None:
        return _split(asked.pareto)
    columns = {name for row in table for name in row}
    own = targets()[study.command].pareto
    return study.pareto or (own if all(objective.split()[1] in columns for objective in own) else ())


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _inputs(study: Study, header: Header) -> Mapping[str, Any]:
    asked = pick_attributes(study, "command base grid cases num_draws draw_seed")
    return {"study": study.path, **asked, "random": study.draws, "begun_as_of": header.as_of}

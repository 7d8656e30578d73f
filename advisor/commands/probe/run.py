"""Answers of `advisor probe`, `calibrate` and `compare`, from their options."""

import re
import threading
from dataclasses import replace
from pathlib import Path

from advisor.ask.options import SharedOptions
from advisor.ask.texts import text_of
from advisor.ask.topology import check_network
from advisor.catalog import accelerators
from advisor.catalog.errors import AdvisorError, InputFileError, MissingHardwareError
from advisor.catalog.schema import Accelerator
from advisor.cli.notes import progress, tell_interrupted
from advisor.commands.probe.options import ProbeInput, ProofInput, ShowProbeInput
from advisor.commands.probe.view import probe_answer, proof_answer
from advisor.probes.assess import claimed_board
from advisor.probes.document import probe_of, read_probe, read_verdict
from advisor.probes.record import Measurement, ProbedMachine
from advisor.probes.session import Progress, Session, finished_steps
from advisor.render.answer import Answer
from advisor.render.atomic import check_writable, write_text
from advisor.render.document import document, dump


def parse_expect(text: str | None) -> tuple[Accelerator | None, int | None, str]:
    """Return the order behind --expect, e.g. `h100-sxm` or `8xh100-sxm`: board, number, and a note on the choice.

    Raises: UnknownNameError: no such board. AdvisorError: none of it was ordered.
    """
    if text is None:
        return None, None, ""
    match = re.fullmatch(r"(?:(\d+)\s*x\s*)?(.+)", text.strip())
    number, name = match.groups() if match else (None, text)
    if number is not None and int(number) == 0:
        raise AdvisorError(f"--expect {text}: 0 GPUs", why="an order has at least one", fix=f"e.g. 1x{name}")
    chosen = accelerators.get(name)
    return chosen.record, int(number) if number else None, chosen.note


def parse_gpus(text: str) -> list[int] | None:
    """Return indices behind --gpus; None for all.

    Raises: AdvisorError: it is neither `all` nor a list of numbers.
    """
    if text == "all":
        return None
    try:
        return sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise AdvisorError(
            f"--gpus {text} is no list of GPUs",
            why="indices are whole numbers",
            fix="e.g. --gpus 0,1 or --gpus all",
        ) from None


def probe(asked: ProbeInput, shared: SharedOptions) -> Answer:
    """Measure this machine; after each step the output file holds all finished steps.

    Raises: AdvisorError: an option is wrong, the file to resume is no probe, or a GPU does not exist.
    """
    if asked.report is not None:
        check_writable(asked.report)
    board, number, note = parse_expect(asked.expect)
    if asked.network is not None:
        check_network(asked.network)
    session = Session(
        asked.quick,
        board,
        number,
        asked.network or "",
        parse_gpus(asked.gpus),
        shared.seed,
        asked.power_sweep,
    )
    if asked.resume is not None:
        before = read_probe(asked.resume)
        if not before.is_sealed:
            raise InputFileError(
                f"{asked.resume}: bears no seal",
                why="an older version wrote it, or it was edited: a verdict cannot rest on it",
                fix="measure this machine from the start: advisor probe -o FILE",
            )
        session.done = finished_steps(before.measurements)
        session.resumed_from = before.machine
    inputs = {
        name: getattr(asked, name)
        for name in ("quick", "expect", "network", "gpus", "resume", "power_sweep", "strict")
    }
    lock = threading.Lock()

    def answer_of(machine: ProbedMachine, found: list[Measurement], is_complete: bool) -> Answer:
        measured = probe_of(
            machine,
            found,
            board or claimed_board(machine),
            quick=asked.quick,
            measured_on=shared.as_of.isoformat(),
            is_complete=is_complete,
        )
        return probe_answer(measured, inputs, strict=asked.strict)

    def save(machine: ProbedMachine, found: list[Measurement]) -> None:
        if shared.output is not None and shared.output.suffix == ".json":
            answer = answer_of(machine, found, False)
            with lock:
                write_text(shared.output, dump(document(answer, seed=shared.seed, shared=shared.as_inputs())))

    session.save = save
    machine, found = _run(session, shared)
    _check_gpus(session.gpus, machine)
    answer = answer_of(machine, found, True)
    if asked.report is not None:
        _write_report(asked.report, answer, shared)
    return replace(answer, notes=(note,)) if note else answer


def read(asked: ProofInput, shared: SharedOptions) -> Answer:
    """Judge pasted reports against the order.

    Raises: InputFileError: a file holds no report that is read, or a report was cut. AdvisorError: an option is wrong.
    """
    from advisor.probes.pasted import assess_proof, read_proof

    if asked.report is not None:
        check_writable(asked.report)
    board, number, note = parse_expect(asked.expect)
    if asked.network is not None:
        check_network(asked.network)
    proof = read_proof((str(path), text_of(Path(path))) for path in asked.files)
    machine, judged_as, checks = assess_proof(proof, board, number, asked.network or "")
    found = probe_of(machine, checks, judged_as, quick=True, measured_on=shared.as_of.isoformat())
    inputs: dict[str, object] = {
        "files": [str(path) for path in asked.files],
        "expect": asked.expect,
        "network": asked.network,
        "strict": asked.strict,
    }
    answer = proof_answer(found, proof.sources, inputs, strict=asked.strict)
    if asked.report is not None:
        _write_report(asked.report, answer, shared)
    return replace(answer, notes=(note,)) if note else answer


def _run(session: Session, shared: SharedOptions) -> tuple[ProbedMachine, list[Measurement]]:
    with progress(quiet=shared.quiet) as line:
        session.report = lambda state: line(_words(state))
        try:
            return session.run()
        except KeyboardInterrupt:
            _tell_saved(shared.output)
            raise


def _check_gpus(wanted: object, machine: ProbedMachine) -> None:
    if isinstance(wanted, list) and len(machine.gpus) < len(wanted):
        raise MissingHardwareError(
            f"GPU {', '.join(map(str, wanted))}: only {len(machine.gpus)} of them answer",
            why="the driver lists no such index",
            fix="nvidia-smi -L lists what there is",
        )


def _words(state: Progress) -> str:
    return f"{state.num_done}/{state.num_steps} {state.text}, about {state.left_s:.0f} s left"


def _tell_saved(output: Path | None) -> None:
    if output is not None and output.exists():
        tell_interrupted(f"what was finished is in {output}: --resume {output} goes on")
    else:
        tell_interrupted("nothing was saved, since no -o FILE.json was given")


def _write_report(path: Path, answer: Answer, shared: SharedOptions) -> None:
    from advisor.render.files import writer_for

    content = document(answer, seed=shared.seed, shared=shared.as_inputs())
    write_text(path, writer_for(path)(answer, content))


def show(asked: ShowProbeInput, shared: SharedOptions) -> Answer:
    """Return a saved probe, or a saved verdict on pasted texts, as its command showed it.

    Raises: InputFileError: the file cannot be read or is neither.
    """
    found = read_verdict(asked.file)
    inputs: dict[str, object] = {"file": asked.file, "strict": asked.strict}
    if found.sources:
        return proof_answer(found, found.sources, inputs, strict=asked.strict)
    answer = probe_answer(found, inputs, strict=asked.strict)
    if found.is_sealed:
        return answer
    unsealed = f"{asked.file} bears no seal: an older version wrote it, or it was edited"
    return replace(answer, warnings=(*answer.warnings, unsealed))

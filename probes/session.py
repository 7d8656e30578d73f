"""A whole probe: identity first, then every GPU in a process of its own, then the group, the host, the verdict.

Finished steps are handed over at once, so that an interruption, a crash or a hang loses only the step that it hit.
"""

import fcntl
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Final

from advisor.catalog.errors import InputFileError, MissingHardwareError
from advisor.catalog.schema import Accelerator
from advisor.probes.assess import HUNG, assess
from advisor.probes.error_counts import ErrorWatch
from advisor.probes.events import parse
from advisor.probes.machine import identify
from advisor.probes.power import limits_of, per_joule, restore_limits, set_limit
from advisor.probes.process import POLL_S, START_S, Process, alone, environment, read_ranks, start_ranks
from advisor.probes.record import Measurement, ProbedMachine, without_traces
from advisor.probes.steps import ProbeStep, duration_s, plan, remaining_s, timeout_s
from advisor.probes.verdict import remove_verdict

_MAX_HUNG: Final = 2
"""Number of steps in a row that may hang before a GPU is given up."""
_AHEAD: Final = "ahead"
"""File that is locked while kernels are compiled."""
_GROUP: Final = "group"
"""File that is locked while GPUs are copied between, before collectives."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Current step and time left."""

    text: str
    num_done: int
    num_steps: int
    left_s: float


@dataclass(slots=True)
class Session:
    """State of a running probe; `save` gets all measurements after each step."""

    quick: bool
    expected: Accelerator | None = None
    """Board that was ordered; None means the board that the first GPU claims to be."""
    num_expected: int | None = None
    network: str = ""
    """Network that was ordered, in words; empty if none was."""
    gpus: Sequence[int] | None = None
    seed: int = 0
    power_sweep: bool = False
    """Whether to measure work per joule at several power limits, which are restored at the end."""
    done: dict[str, list[Measurement]] = field(default_factory=dict)
    """Finished steps by key, e.g. "gpu0/matmul"; filled from an earlier file to resume."""
    resumed_from: ProbedMachine | None = None
    """Machine of the file to resume, which must be this one; None without such a file."""
    report: Callable[[Progress], None] = lambda progress: None
    save: Callable[[ProbedMachine, list[Measurement]], None] = lambda machine, measurements: None
    _lock: Any = field(default_factory=threading.Lock)
    _saving: Any = field(default_factory=threading.Lock)
    """Lock held from the snapshot to its file, so that an earlier snapshot does not overwrite a later one."""
    _live: set[Process] = field(default_factory=set)
    _facts: dict[str, Any] = field(default_factory=dict)
    """Facts of the machine that torch reported."""
    _machine: ProbedMachine = field(default_factory=ProbedMachine)
    """Machine as it was before torch was asked."""
    _planned: dict[str, ProbeStep] = field(default_factory=dict)
    """Every step by its key."""

    def run(self) -> tuple[ProbedMachine, list[Measurement]]:
        """Measure and judge everything that this machine allows.

        Raises: KeyboardInterrupt: the user stopped it; finished steps have been saved.
            InputFileError: the file to resume was measured on another machine.
            AdvisorError: another probe is running.
        """
        machine = visible(identify(self.gpus))
        if self.resumed_from is not None:
            check_same_machine(self.resumed_from, machine, is_part=self.gpus is not None)
        self._machine, self._planned = machine, self._keys(machine)
        watch = ErrorWatch(gpu.index for gpu in machine.gpus if gpu.vendor == "nvidia")
        self._tell("identity")
        self.save(machine, self.judge())
        try:
            with alone(), tempfile.TemporaryDirectory(prefix="advisor-probe-") as folder:
                if machine.torch:
                    self._measure_gpus(Path(folder))
                    self._measure_group(Path(folder))
                    if self.power_sweep:
                        self._sweep_power()
                self._measure_steps("apple", _apple_steps(self.quick))
                self._measure_steps("host", plan(self.quick, "host"))
        finally:
            for process in tuple(self._live):
                process.kill()
        gpus = [gpu.model_copy(update=watch.changes(gpu.index)) for gpu in self.machine.gpus]
        self._facts["gpus"] = tuple(gpus)
        return self.machine, self.judge()

    def judge(self) -> list[Measurement]:
        """Return all measurements so far with identity, health, expectations and comparisons."""
        with self._lock:
            measured = [m for found in self.done.values() for m in found]
        return assess(self.machine, measured, self.expected, self.num_expected, self.network)

    @property
    def machine(self) -> ProbedMachine:
        """Machine with the facts that torch reported."""
        return self._machine.model_copy(update=self._facts)

    def _keys(self, machine: ProbedMachine) -> dict[str, ProbeStep]:
        keys: dict[str, ProbeStep] = {}
        if machine.torch:
            for gpu in _indices(machine):
                keys |= {f"gpu{gpu}/{step.name}": step for step in plan(self.quick, "gpu")}
            if len(machine.gpus) > 1:
                keys |= {f"group/{step.name}": step for step in plan(self.quick, "group")}
        for place, steps in (("apple", _apple_steps(self.quick)), ("host", plan(self.quick, "host"))):
            keys |= {f"{place}/{step.name}": step for step in steps}
        return keys

    def _tell(self, text: str) -> None:
        with self._lock:
            left = {key: step for key, step in self._planned.items() if key not in self.done}
        columns: dict[str, list[ProbeStep]] = {}
        for key, step in left.items():
            columns.setdefault(key.partition("/")[0], []).append(step)
        # GPUs work in parallel: the longest column counts, except for exclusive steps, which the GPUs take in turns.
        parallel = [
            remaining_s(steps, self.quick) for name, steps in columns.items() if name.startswith("gpu")
        ]
        turns = sum(
            duration_s(step, self.quick)
            for name, steps in columns.items()
            for step in steps
            if step.is_exclusive and name.startswith("gpu")
        )
        alone = sum(
            remaining_s(steps, self.quick) for name, steps in columns.items() if not name.startswith("gpu")
        )
        left_s = max([*parallel, turns], default=0.0) + alone
        num_steps = len(self._planned)
        self.report(Progress(text, num_steps - len(left), num_steps, left_s))

    def _store(self, key: str, found: list[Measurement]) -> None:
        with self._lock:
            told = [without_traces(m.note, self._machine) if m.note else "" for m in found]
            self.done[key] = [
                m.model_copy(update={"step": key, "note": note}) for m, note in zip(found, told, strict=True)
            ]
        with self._saving:
            self.save(self.machine, self.judge())
        step = self._planned.get(key)
        self._tell(f"{key.partition('/')[0]}: {step.title if step else key}")

    def _measure_gpus(self, folder: Path) -> None:
        held = (folder / _AHEAD).open("w")
        fcntl.flock(held, fcntl.LOCK_EX)
        threads = [threading.Thread(target=self._ask_torch, args=(held,), daemon=True)]
        threads += [
            threading.Thread(
                target=self._measure_steps,
                args=(f"gpu{gpu}", plan(self.quick, "gpu"), gpu, folder),
                daemon=True,
            )
            for gpu in _indices(self._machine)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(POLL_S)

    def _ask_torch(self, held: IO[str]) -> None:
        """Collect what only torch knows of the machine, from a process that then compiles the kernels of later steps.

        Workers wait for the lock before they time anything, until the process has ended or is given up.
        """
        known = self._machine.gpus
        with held:
            command = [sys.executable, "-m", "advisor.probes.ahead"]
            ahead = Process(command, environment([gpu.index for gpu in known]))
            self._live.add(ahead)
            ends_at_s = time.monotonic() + START_S
            try:
                while (line := ahead.next_line(ends_at_s - time.monotonic())) is not None:
                    told = parse(line) or {}
                    gpus = told.pop("gpus", [])
                    if len(gpus) == len(known):
                        pairs = zip(known, gpus, strict=True)
                        told["gpus"] = tuple(gpu.model_copy(update=facts) for gpu, facts in pairs)
                    self._facts |= told
            finally:
                ahead.kill()
                ahead.stop()
                self._live.discard(ahead)

    def _measure_steps(
        self, place: str, steps: Sequence[ProbeStep], gpu: int = -1, folder: Path | None = None
    ) -> None:
        """Run steps in a worker; after a crash or a hang, run the rest in a new one."""
        waiting = [step for step in steps if f"{place}/{step.name}" not in self.done]
        num_hung = 0
        while waiting:
            lost = self._run_worker(place, waiting, gpu, folder)
            waiting = [step for step in waiting if f"{place}/{step.name}" not in self.done]
            if lost is None:
                return
            found = self.done.get(f"{place}/{lost.name}", ())
            num_hung = num_hung + 1 if any(HUNG in m.note for m in found) else 0
            if num_hung == _MAX_HUNG:
                for step in waiting:
                    reason = f"given up after {num_hung} steps that hung"
                    self._store(f"{place}/{step.name}", [_lost_measurement(step, gpu, reason)])
                return

    def _run_worker(
        self, place: str, steps: Sequence[ProbeStep], gpu: int, folder: Path | None
    ) -> ProbeStep | None:
        """Run one process over the steps; return the step that it died of, or None if all are finished."""
        names = {step.name: step for step in steps}
        gpus = self._machine.gpus
        command = [
            sys.executable,
            "-m",
            "advisor.probes.worker",
            "--steps",
            ",".join(names),
            "--gpu",
            str(gpu),
        ]
        command += ["--seed", str(self.seed), "--num-gpus", str(len(gpus))]
        command += ["--quick"] if self.quick else []
        command += ["--lock", str(folder / "exclusive"), "--ahead", str(folder / _AHEAD)] if folder else []
        seen = [gpu] if gpu >= 0 else [g.index for g in gpus]
        worker = Process(command, environment(seen))
        self._live.add(worker)
        current: ProbeStep | None = steps[0]
        limit_s = START_S + timeout_s(steps[0], self.quick)
        try:
            while (line := worker.next_line(limit_s)) is not None:
                event = parse(line)
                if event is None:
                    continue
                step = names[event["step"]]
                key = f"{place}/{step.name}"
                if event["event"] == "start":
                    current = step
                    waits = timeout_s(step, self.quick) * (len(gpus) if step.is_exclusive else 1)
                    limit_s = waits
                    self._tell(f"{place}: {step.title}")
                    continue
                current = None
                limit_s = START_S if step.is_timed else 2 * START_S  # the next step may also wait for kernels
                if event["event"] == "done":
                    found = [Measurement.model_validate(m) for m in event["measurements"]]
                else:
                    found = [_lost_measurement(step, gpu, event["reason"])]
                self._store(key, found)
        finally:
            worker.stop()
            self._live.discard(worker)
        left = [step for step in steps if f"{place}/{step.name}" not in self.done]
        if not left:
            return None
        if current is None and len(left) < len(steps) and not worker.timed_out:
            return left[0]  # the worker reported a broken context and left: the rest starts in a new one
        broken = current if current is not None else left[0]
        told = f"{HUNG} {limit_s:.0f} s: stopped" if worker.timed_out else worker.last_words()
        self._store(f"{place}/{broken.name}", [_lost_measurement(broken, gpu, told)])
        return broken

    def _measure_group(self, folder: Path) -> None:
        """Measure copies between GPUs, while the first group's ranks load their libraries, then collectives."""
        gpus = [gpu.index for gpu in self._machine.gpus]
        if len(gpus) < 2:
            return
        peer, collective = plan(self.quick, "group")
        groups = [gpus[:number] for number in (2, 4, 8, 16) if number < len(gpus)] + [gpus]
        if "group/collective" in self.done:
            groups = []
        limit_s = timeout_s(collective, self.quick)
        turn = folder / _GROUP
        with turn.open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            ranks = start_ranks(groups[0], self.quick, limit_s, turn) if groups else []
            self._live.update(ranks)
            self._measure_steps("group", [peer])
        found: list[Measurement] = []
        for group in groups:
            self._tell(f"group: {collective.title}")
            ranks = ranks or start_ranks(group, self.quick, limit_s, turn)
            self._live.update(ranks)
            found += read_ranks(ranks, limit_s)
            self._live.difference_update(ranks)
            ranks = []
        if groups:
            self._store("group/collective", found)

    def _sweep_power(self) -> None:
        """Measure at each limit on all GPUs, one GPU after the other; the previous limits are restored."""
        (step,), gpus = plan(self.quick, "power"), self._machine.gpus
        before = {gpu.index: gpu.power_limit_w for gpu in gpus if gpu.power_limit_w}
        refused = "" if before else "no GPU tells its power limit"
        try:
            with restore_limits(before):
                for gpu in gpus if before else ():
                    for watts in limits_of(gpu):
                        set_limit(gpu.index, watts)
                        place = f"gpu{gpu.index}-{watts:.0f}W"
                        self._measure_steps(place, [step], gpu.index)
        except MissingHardwareError as error:
            refused = f"{error.what}: {error.why}"
        points = [m for key, found in self.done.items() if key.endswith("/power") for m in found]
        found = per_joule(points)
        if not found:
            reason = refused or "the GPUs tell no range of limits"
            found = [Measurement(id="power.sweet_spot", status="not_measured", note=reason)]
        self._store("sweep/result", found)


def visible(machine: ProbedMachine) -> ProbedMachine:
    """Return the machine with only the GPUs that CUDA_VISIBLE_DEVICES leaves, if it is set."""
    names = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    if not names:
        return machine
    kept = [
        gpu for gpu in machine.gpus if str(gpu.index) in names or any(gpu.uuid.startswith(n) for n in names)
    ]
    return machine.model_copy(update={"gpus": tuple(kept)})


def check_same_machine(before: ProbedMachine, now: ProbedMachine, *, is_part: bool = False) -> None:
    """Refuse to mix two machines in one verdict; serial numbers are redacted, so processor and boards are compared.

    `is_part`: only some of this machine's GPUs were asked for, so those of the file may be others.
    Raises: InputFileError: the processor differs, or a GPU of the file is missing here.
    """
    here = {gpu.index: gpu.name for gpu in now.gpus}
    lost = [gpu for gpu in before.gpus if here.get(gpu.index, gpu.name if is_part else "") != gpu.name]
    if lost or before.cpu != now.cpu:
        what = f"GPU {lost[0].index} was {lost[0].name}" if lost else f"its processor was {before.cpu}"
        found = here.get(lost[0].index, "none") if lost else now.cpu
        raise InputFileError(
            "the probe to resume was measured on another machine",
            why=f"{what}, here it is {found}",
            fix="leave out --resume to measure this machine from the start",
        )


def finished_steps(measurements: Sequence[Measurement]) -> dict[str, list[Measurement]]:
    """Return the finished steps of an earlier file without their judgement; steps that were lost are left out."""
    steps: dict[str, list[Measurement]] = {}
    for m in measurements:
        if m.step:
            steps.setdefault(m.step, []).append(remove_verdict(m))
    return {key: found for key, found in steps.items() if not any(m.id.startswith("step.") for m in found)}


def _indices(machine: ProbedMachine) -> list[int]:
    """Return the indices of GPUs to measure; 0 for the one that only torch sees (Apple)."""
    return [gpu.index for gpu in machine.gpus] or ([0] if sys.platform == "darwin" else [])


def _apple_steps(quick: bool) -> list[ProbeStep]:
    """Return the steps that MLX measures, on a Mac with MLX installed."""
    return plan(quick, "apple") if sys.platform == "darwin" and find_spec("mlx") else []


def _lost_measurement(step: ProbeStep, gpu: int, reason: str) -> Measurement:
    return Measurement(
        id=f"step.{step.name}",
        gpu=gpu if gpu >= 0 else None,
        title=step.title,
        status="not_measured",
        note=reason,
    )

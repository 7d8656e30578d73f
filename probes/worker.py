"""A process that measures one device step by step and prints each result as a line of JSON.

The session starts it, so that a crash, a hang or a poisoned CUDA context ends this process, not the probe.
"""

import argparse
import importlib
import os
import traceback
from pathlib import Path

from advisor.probes.events import claim_stdout, emit
from advisor.probes.process import take_turn
from advisor.probes.record import Measurement
from advisor.probes.steps import STEPS, ProbeStep


def main(arguments: list[str] | None = None) -> int:
    """Run the steps that the session asks for; failures are events, so the status is 0, or 1 after a CUDA error."""
    parser = argparse.ArgumentParser(prog="advisor.probes.worker")
    parser.add_argument("--steps", required=True)
    parser.add_argument("--gpu", type=int, default=-1)
    parser.add_argument("--num-gpus", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--lock", type=Path, default=None)
    parser.add_argument("--ahead", type=Path, default=None)
    options = parser.parse_args(arguments)
    events = claim_stdout()
    wanted = options.steps.split(",")
    for step in (step for step in STEPS if step.name in wanted):
        if step.is_timed:
            with take_turn(options.ahead):
                pass  # kernels are compiled, and no other work runs
        emit(events, {"event": "start", "step": step.name})
        try:
            with take_turn(options.lock if step.is_exclusive else None):
                found = _run(step, options)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            traceback.print_exc()
            emit(events, {"event": "failed", "step": step.name, "reason": reason})
            if "CUDA error" in str(error):
                return 1
        else:
            measurements = [m.model_dump(mode="json", exclude_defaults=True) for m in found]
            emit(events, {"event": "done", "step": step.name, "measurements": measurements})
    return 0


def _run(step: ProbeStep, options: argparse.Namespace) -> list[Measurement]:
    module, _, name = step.function.partition(":")
    function = getattr(importlib.import_module(f"advisor.probes.{module}"), name)
    if step.place in ("host", "apple"):
        return list(function(options.quick))
    if step.place == "group":
        return list(function(options.num_gpus, options.quick))
    from advisor.probes.bench import Bench
    from advisor.probes.devices import open_device

    device = open_device()
    return list(function(Bench(device, options.gpu, options.quick, options.seed)))


if __name__ == "__main__":
    os._exit(main())  # all results are written, so the next step need not wait for torch to shut down

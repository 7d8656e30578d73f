"""Judge pasted nccl-tests output, whichever command it was given to."""

from pathlib import Path

from advisor.ask.topology import group_of
from advisor.catalog import accelerators
from advisor.catalog.formats.nccl_tests import CollectiveName, parse_nccl_tests
from advisor.commands.validate.nccl_tests_view import nccl_tests_answer
from advisor.render.answer import Answer
from advisor.simulator.collectives.nccl_tests import judge_nccl_tests
from advisor.simulator.collectives.topology import usual_network


def judged_collectives(
    text: str, path: Path, gpu: str | None, network: str | None, operation: CollectiveName | None
) -> Answer:
    """Return the verdict on a run of nccl-tests.

    Raises: InputFileError: the text holds no results. AdvisorError: the accelerator is unknown or not said, or the
        group does not fit its nodes.
    """
    found = judge_nccl_tests(text, gpu or "", operation=operation)
    notes = (accelerators.get(gpu).note,) if gpu else ()
    if network is not None:
        run = parse_nccl_tests(text, operation)
        _, topology, note = group_of(found.accelerator, run.num_ranks, run.num_nodes, network=network)
        found = judge_nccl_tests(text, found.accelerator, topology=topology, operation=operation)
        notes = (*notes, note)
    elif between := usual_network(accelerators.by_id(found.accelerator), found.topology):
        notes = (*notes, f"{between.words}; --network says another")
    notes = (*notes, *found.run.assumed)
    inputs = {"output": str(path), "gpu": found.accelerator, "network": network, "op": found.run.operation}
    return nccl_tests_answer(found, inputs, tuple(filter(None, notes)))

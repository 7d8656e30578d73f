"""Take one layer's routed experts over ranks: loads without and with copies, and their time."""

import numpy as np

from advisor.ask.deployment import deployment_of
from advisor.ask.options import LayoutOptions, SharedOptions
from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.errors import AdvisorError
from advisor.commands.simulate_experts.options import ExpertsInput
from advisor.commands.simulate_experts.view import ExpertTimes, experts_answer
from advisor.render.answer import Answer
from advisor.simulator.device import device_of
from advisor.simulator.graph.model import routed_layers
from advisor.simulator.operator_library import ExpertLayer, OperatorLibrary, matmul_key
from advisor.simulator.workloads.expert_balance import balance_experts


def experts(asked: ExpertsInput, shared: SharedOptions) -> Answer:
    """Return the balance of one layer's experts, and the time of the fullest rank.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, the model has no routed experts, or
        they do not divide among the ranks.
    """
    deployment, notes = deployment_of(asked.model, asked.gpu, LayoutOptions(precision=asked.precision))
    routed = routed_layers(deployment.model)
    if not routed:
        raise AdvisorError(
            f"{deployment.model.id} has no routed experts",
            why="its layers are dense",
            fix="--model mixtral-8x7b",
        )
    num_layers = sum(count for count, _ in routed)
    layer = routed[0][1]
    balance = balance_experts(
        layer.num_experts, asked.ep, skew=asked.skew, num_copies=asked.redundant, seed=shared.seed
    )
    library = OperatorLibrary(device_of(deployment.accelerator), deployment.engine.id)
    key = matmul_key(deployment.weight_dtype, deployment.activation_dtype)
    shape = ExpertLayer(
        hidden_size=layer.hidden_size,
        intermediate_size=layer.intermediate_size,
        num_experts=layer.num_experts,
        experts_per_token=layer.per_token,
        tensor_parallel=1,
        expert_parallel=asked.ep,
        gated=layer.gated,
    )
    factors = (1.0, balance.as_numbered, balance.with_copies)
    tokens = asked.tokens * np.array(factors)
    even_s, plain_s, copied_s = (float(value) for value in library.experts_s(tokens, key, shape))
    width = bytes_per_element(deployment.weight_dtype)
    times = ExpertTimes(
        even_s=even_s,
        as_numbered_s=plain_s,
        with_copies_s=copied_s,
        copies_bytes=asked.redundant / asked.ep * layer.elements * width * num_layers,
    )
    inputs = {
        "model": deployment.model.id,
        "gpu": deployment.accelerator.id,
        "expert_parallel": asked.ep,
        "redundant_experts": asked.redundant,
        "skew": asked.skew,
        "tokens": asked.tokens,
        "weight_dtype": deployment.weight_dtype,
    }
    return experts_answer(deployment, layer.num_experts, balance, times, inputs, notes)

"""Embeddings and rerankers: one pass over each text, in batches."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.workloads.encoder_pass import RUNTIMES, PassCost, Runtime, encoder_pass

FloatArray = NDArray[np.float64]
HOST_S = 0.5e-3
"""Host time of a batch [s]: tokenising in parallel, copies to and fro, pooling and the response."""
MEMORY_FRACTION = 0.9
"""Part of an accelerator's memory for weights and a batch. Own assumption; libraries take the rest."""
_LIVE_WIDTHS = 12.0
"""Number of live values per token and hidden width: residual, queries to values, and the feed-forward part's inner
width."""
MAX_BATCH = 256


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts of one length to embed; a reranker reads query and document together."""

    tokens: int
    query_tokens: int = 0
    """Tokens of a reranker's query, which is read again with every document."""

    @property
    def tokens_per_pass(self) -> int:
        return self.tokens + self.query_tokens


def embedding_s(
    deployment: Deployment,
    library: OperatorLibrary,
    texts: Texts,
    num_texts: FloatArray,
    *,
    runtime: Runtime = RUNTIMES["tensorrt"],
) -> PassCost:
    """Time of batches of texts on one replica, by category [s].

    one pass over every token of every text + host

    Assumes: texts of equal length, or packed without padding; causal embedding models attend causally.
    Raises: AdvisorError: texts are longer than the model reads.
    Error: BERT-large on A100, tests/simulator/workloads/test_published_encoders.py.
    Source: encoder_pass.
    """
    limit = deployment.model.max_context_tokens
    if texts.tokens_per_pass < 1 or (limit is not None and texts.tokens_per_pass > limit):
        raise AdvisorError(
            f"{deployment.model.id} cannot read {texts.tokens_per_pass} tokens at once",
            why=f"it was trained on {limit} positions" if limit else "",
            fix=f"split texts into pieces of at most {limit} tokens" if limit else "at least one token",
        )
    cost = encoder_pass(deployment, library, num_texts, texts.tokens_per_pass, runtime=runtime)
    return PassCost(cost.num_sequences, {**cost.seconds, "host": np.full_like(cost.num_sequences, HOST_S)})


def largest_text_batch(deployment: Deployment, texts: Texts) -> int:
    """Number of texts that one accelerator can hold in addition to the weights, at most MAX_BATCH.

    Raises: InfeasibleError: not even one fits.
    Source: own derivation; engines' default client batches.
    """
    model = deployment.model
    memory = (deployment.accelerator.memory_bytes or 0.0) * MEMORY_FRACTION
    weights = parameter_count(model).total * bytes_per_element(deployment.weight_dtype)
    each = texts.tokens_per_pass * model.hidden_size * _LIVE_WIDTHS * bytes_per_element("bf16")
    count = min(MAX_BATCH, int((memory - weights) / each))
    if count < 1:
        raise InfeasibleError(
            f"{model.id} does not fit {deployment.accelerator.id}",
            why="no text fits beside the weights",
            fix="--precision fp8",
        )
    return count

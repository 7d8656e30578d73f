"""How a replica for texts or audio is started: the command of an engine that loads the model, or why there is none."""

import math
import shlex
from typing import Final

from advisor.catalog import engines
from advisor.catalog.architectures import class_support, needs_repository_code
from advisor.catalog.launch_options import check_command, launch_options
from advisor.catalog.legible import Line
from advisor.catalog.published import ServedCheckpoint
from advisor.catalog.resaving import TORCH_DTYPES
from advisor.catalog.schema.model import CrossAttention
from advisor.decide.option import Launch, Option
from advisor.decide.reason import NoKernels, NoStartCommand, Reason
from advisor.simulator.workloads.batch_queue import batch_within
from advisor.simulator.workloads.services import ItemJob, ItemService

ENGINE: Final = "vllm"
"""Engine whose command is printed: the only one of the catalog that serves vectors, scores and transcripts."""
_LENGTH_STEP: Final = 1024
"""Multiple to which the longest item is rounded up, as context limits are."""
_SCORES: Final = "rerank"
"""Part of the name of a repository that holds a head for scores. Assumes: publishers name rerankers so."""


def engine_dtype(service: ItemService) -> str:
    """Return the number format in which the engine computes on the accelerator: the 16-bit format that it has."""
    deployment = service.deployment
    dtype = deployment.activation_dtype
    return deployment.accelerator.sixteen_bit_dtype if dtype == "bf16" else dtype


def lacks_engine(service: ItemService, job: ItemJob) -> NoKernels | None:
    """Return the reason why the engine cannot run on the accelerator; None if it can, or serves no such items at all.

    What no engine of the catalog serves, images, is priced without a start command on every accelerator alike.
    """
    if job.workload not in engines.by_id(ENGINE).flags.items:
        return None
    dtype = engine_dtype(service)
    architecture = service.deployment.accelerator.architecture
    is_lacking = engines.support(ENGINE, architecture, dtype).verdict == "no"
    return NoKernels(_engine_words(), (dtype,)) if is_lacking else None


def item_launch(service: ItemService, job: ItemJob, batch: int) -> Launch | Reason:
    """Return how one replica is started with a batch, the priced format and length of items, or why it is not.

    Assumes: the engine has kernels for the accelerator (`lacks_engine`).
    Source: vLLM 0.33.0, config/model.py (runner), examples of Qwen3-Reranker; encoders take no chunk of a text, so that
        the tokens of an iteration are at least those of the longest one.
    """
    engine = engines.by_id(ENGINE)
    deployment = service.deployment
    model = deployment.model
    template = engine.flags.items.get(job.workload)
    if template is None:
        return NoStartCommand(f"no engine of the catalog has a start command for {job.unit}s")
    if deployment.weight_dtype not in TORCH_DTYPES:
        return NoStartCommand(
            f"no {deployment.weight_dtype} checkpoint of {model.id} for {job.unit}s is known"
        )
    if class_support(engine, model, deployment.accelerator).verdict not in ("native", "transformers"):
        return NoStartCommand(f"no list of {engine.name} settles that it loads {model.id}")
    repository = _repository(service, job)
    if isinstance(repository, Reason):
        return repository
    tokens, length = _sizes(service, job, batch)
    values = {
        "model": shlex.quote(repository),
        "dtype": TORCH_DTYPES[engine_dtype(service)],
        "batch": batch,
    }
    # Sentence transformers may read less than the positions of their model: the engine finds that limit itself.
    fills_window = length >= (model.max_context_tokens or math.inf)
    length_flag = "" if fills_window else engine.flags.items_length.format(length=length)
    words = shlex.split(template.format(**values, tokens=tokens, length_flag=length_flag))
    words += shlex.split(engine.flags.items_of_family.get(f"{model.family}:{job.workload}", ""))
    words += [engine.flags.repository_code] if needs_repository_code(model, ENGINE) else []
    check_command(ENGINE, words)
    argv = tuple(Line(word, "a word of the start command") for word in words)
    checkpoint = ServedCheckpoint(repository, deployment.weight_dtype, "published")
    return Launch(shlex.join(argv), argv, {}, checkpoint)


def started_batch(service: ItemService, priced_batch: int, latency_p99_s: float) -> int:
    """Return the most items of an iteration of the engine that is started.

    The program whose times were priced takes batches that need no more for the throughput. Every iteration of the
    engine has host time of its own, which larger batches share: so it may take as many as still end within the
    objective behind another batch.
    """
    return max(priced_batch, batch_within(service.batch_s, latency_p99_s / 2.0))


def _repository(service: ItemService, job: ItemJob) -> str | Reason:
    """Return the checkpoint of a model that does the work: the one that was named, else the publisher's first."""
    model = service.deployment.model
    if model.folder:
        return model.folder
    able = [each for each in model.hf_ids if (_SCORES in each.casefold()) == (job.workload == "rerank")]
    named = model.repository
    if named and named not in able:
        return NoStartCommand(f"{named} does not make what --workload {job.workload} asks for")
    if not able:
        return NoStartCommand(f"no checkpoint of {model.id} is known that makes scores of {job.unit}s")
    return named or able[0]


def _sizes(service: ItemService, job: ItemJob, batch: int) -> tuple[int, int]:
    """Return the tokens of a full batch, and the longest item."""
    model = service.deployment.model
    if job.texts is None:
        mixers = [layer.mixer for layer in model.layers]
        read = [each.source_tokens or 0 for each in mixers if isinstance(each, CrossAttention)]
        frames = max(read, default=0)
        return batch * frames, frames
    most = job.texts.tokens_per_pass
    length = -(-most // _LENGTH_STEP) * _LENGTH_STEP
    window = model.max_context_tokens or length
    length = min(length, window) if window >= most else length
    return max(batch * most, length), length


def item_start_words(option: Option) -> str:
    """Return the sentence before the start command of an option: what comes first, the engine, and whose times were
    priced."""
    layout = option.replica_layout
    checkpoint = option.started.checkpoint
    first = checkpoint.start_words if checkpoint is not None else "Start"
    which = f"each of {layout.num_replicas} replicas" if layout.num_replicas > 1 else "it"
    return (
        f"{first} {which} with {_engine_words()}; the times are those of {layout.engine}, as the engine's own are not "
        "modelled"
    )


def _engine_words() -> str:
    return f"{engines.by_id(ENGINE).name} {launch_options()[ENGINE].release}"

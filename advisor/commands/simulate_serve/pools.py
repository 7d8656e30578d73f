"""Two pools as typed: prefill workers beside the decode workers that the other options describe."""

from dataclasses import dataclass, replace

from advisor.ask.deployment import LoadPlan, check_engine
from advisor.catalog import accelerators
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Calibration
from advisor.commands.simulate_serve.options import TwoPools
from advisor.render.numbers import RATE, SIZE, TIME, digits, layout_words, show
from advisor.simulator.calibrated_device import calibrated_deployment
from advisor.simulator.deployment import Deployment, activation_dtype_of
from advisor.simulator.disaggregation import DisaggregatedModel, PoolPlan, model_disaggregated
from advisor.simulator.graph.model import is_moe
from advisor.simulator.layout import check_layout
from advisor.simulator.replica_model import EngineSettings


@dataclass(frozen=True, slots=True)
class KvTransfer:
    """Transfer of the cache of one prompt from a prefill worker to a decode worker."""

    tokens: float
    num_bytes: float
    bytes_per_s: float
    time_s: float
    """Time over one free link, from the first byte to the last, latency included [s]."""
    exposed_s: float
    """Part of that time that passes after the prompt is computed: a layer's share if layers leave one by one [s]."""
    network: str | None
    """Network between the pools, in words; None if all workers are in one domain."""

    @property
    def words(self) -> str:
        """Return the transfer in one sentence."""
        return (
            f"The cache of a mean prompt of {digits(self.tokens)} tokens has {show(self.num_bytes, SIZE)} and takes "
            f"{show(self.time_s, TIME)} over {show(self.bytes_per_s, RATE)} to the decode pool; at least "
            f"{show(self.exposed_s, TIME)} of it comes after the prompt is computed.{self._network_words}"
        )

    @property
    def _network_words(self) -> str:
        return "" if self.network is None else f" {self.network[0].upper()}{self.network[1:]}."


@dataclass(frozen=True, slots=True)
class Pools:
    """The pools for prefill and for decode, planned and modelled."""

    prefill: PoolPlan
    decode: PoolPlan
    model: DisaggregatedModel

    @property
    def words(self) -> str:
        """Return the hardware of both pools: `1 x (4 x h100-sxm (TP4)) for prompts, 2 x (...) for answers`."""
        parts = ((self.prefill, "prompts"), (self.decode, "answers"))
        return ", ".join(f"{_words(plan)} for {what}" for plan, what in parts)

    def transfer(self, tokens: float) -> KvTransfer:
        """Return the transfer of a prompt's cache over one free link.

        Assumes: no other transfer is on the link; of layers or chunks that leave one by one, all but the last are gone
        when the prompt is computed.
        """
        link = self.model.link
        moved = link.fixed_bytes + link.bytes_per_token * tokens
        whole_s = link.latency_s + moved / link.bytes_per_s
        pieces = link.num_pieces(tokens)
        exposed_s = link.latency_s + moved / pieces / link.bytes_per_s
        network = self.model.network
        words = None if network is None else network.words
        return KvTransfer(tokens, moved, link.bytes_per_s, whole_s, exposed_s, words)


def pools_of(
    typed: TwoPools,
    worker: Deployment,
    plan: LoadPlan,
    settings: EngineSettings,
    calibration: Calibration | None,
) -> Pools:
    """Return the pools that were typed; `worker` is one decode worker.

    Raises: AdvisorError and its kinds: a pool is missing or incomplete, an accelerator is not known or refused, or a
        worker does not fit.
    """
    _check(typed, worker)
    prefill = PoolPlan(
        calibrated_deployment(_prefill_worker(typed, worker, settings.version), calibration),
        typed.prefill_workers or 0,
    )
    decode = PoolPlan(calibrated_deployment(worker, calibration), typed.decode_workers or 0)
    model = model_disaggregated(
        prefill,
        decode,
        mean_input_tokens=plan.mean_input_tokens,
        mean_output_tokens=plan.mean_output_tokens,
        context_spread=plan.context_spread,
        concurrency=plan.traffic.concurrency,
        settings=settings,
    )
    return Pools(prefill, decode, model)


def _check(typed: TwoPools, worker: Deployment) -> None:
    """Refuse a pool without the other, and what belongs to one pool only."""
    for number, missing, other in (
        (typed.prefill_workers, "prefill", "decode"),
        (typed.decode_workers, "decode", "prefill"),
    ):
        if number is None:
            raise InfeasibleError(
                f"a {other} pool without {missing} workers answers no request",
                why="prompts are computed in one pool and answered in the other",
                fix=f"--{missing}-workers 1, or neither option for one pool",
            )
    if worker.num_replicas > 1:
        raise AdvisorError(
            "--replicas and two pools exclude each other",
            why="pools have workers of their own",
            fix=f"--decode-workers {worker.num_replicas} instead of --replicas",
        )


def _prefill_worker(typed: TwoPools, worker: Deployment, version: str) -> Deployment:
    """Return a worker like a decode worker, on its own accelerators and over its own degree if these were typed."""
    chip = worker.accelerator
    if typed.prefill_gpu is not None:
        chip = accelerators.get(typed.prefill_gpu).record
        check_engine(worker.engine, chip, worker.weight_dtype, worker.kv_dtype, version)
    own = worker
    if typed.prefill_tp is not None:
        experts = typed.prefill_tp if is_moe(worker.model) and worker.expert_parallel > 1 else 1
        own = replace(worker, tensor_parallel=typed.prefill_tp, data_parallel=1, expert_parallel=experts)
        try:
            check_layout(own)
        except InfeasibleError as error:
            fix = error.fix.replace("--tp", "--prefill-tp")
            raise InfeasibleError(error.what, why=error.why, fix=fix) from None
    return replace(
        own, accelerator=chip, activation_dtype=activation_dtype_of(worker.model, worker.weight_dtype, chip)
    )


def _words(plan: PoolPlan) -> str:
    worker = plan.worker
    return layout_words(worker, worker.accelerator.id, plan.num_workers)

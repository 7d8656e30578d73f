"""Run one deployment with images in its prompts, or with adapters on its weights."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from advisor.ask.deployment import LoadPlan, as_inputs, check_served, deployment_of, load_of
from advisor.ask.items import parse_size
from advisor.ask.measures import parse_clients
from advisor.ask.options import LoadOptions, SharedOptions
from advisor.ask.own_data import given_calibration
from advisor.catalog import vision as schemes
from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Calibration
from advisor.catalog.vision import ImageScheme
from advisor.commands.simulate_mechanisms.options import AdaptersInput, VisionInput
from advisor.commands.simulate_mechanisms.view import adapter_answer, vision_answer
from advisor.decide.bounds import capacity_per_s
from advisor.render.answer import Answer
from advisor.render.calibration_view import with_calibration
from advisor.render.serve_view import ServeRun
from advisor.simulator.collectives import topology_of
from advisor.simulator.deployment import Deployment
from advisor.simulator.disaggregation import HANDSHAKE_S
from advisor.simulator.engine_costs import operator_library
from advisor.simulator.quantity import Quantity
from advisor.simulator.replica_model import EngineSettings, ReplicaModel, model_replica
from advisor.simulator.serving import ServingResult, Workload, simulate
from advisor.simulator.serving.overload import num_requests_to_run_again, num_requests_to_tell, overload_of
from advisor.simulator.serving_prediction import predict_serving, within_sent
from advisor.simulator.workloads.encoder_pass import RUNTIMES
from advisor.simulator.workloads.encoder_pool import EncoderPool, behind_encoders, with_encoding
from advisor.simulator.workloads.lora import Adapters, lora_replica
from advisor.simulator.workloads.vision import ImageTokens, image_encoder_s, tokens_of_image, vision_replica

_EMBEDDING_BYTES = 2.0


def vision(asked: VisionInput, shared: SharedOptions) -> Answer:
    """Simulate a vision-language model whose requests bring images.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, or it does not fit.
    """
    item = asked.item
    deployment, _ = deployment_of(asked.model, asked.gpu, asked.layout)
    scheme = schemes.get(item.image_scheme) if item.image_scheme else schemes.scheme_of(deployment.model)
    size = parse_size(item.image_size or "1024x1024")
    image = tokens_of_image(scheme, *size)
    text_tokens = asked.load.input_tokens
    if text_tokens is None:
        raise AdvisorError(
            "the text of a prompt is not given", why="images come on top of it", fix="--input-tokens 64"
        )
    tokens = text_tokens + item.images * image.language_tokens

    def with_images(replica: ReplicaModel) -> ReplicaModel:
        return vision_replica(replica, scheme, image, item.images, tokens)

    load = replace(asked.load, input_tokens=tokens)
    pool = None
    if asked.encoder_gpus is None:
        run, plan, notes = _simulate_load(asked, load, with_images, shared)
    else:
        pool = _encoder_pool(asked, deployment, scheme, image)
        run, plan, notes = _simulate_load(asked, load, _as_it_is, shared, pool)
    seconds = image_encoder_s(run.replica.deployment, run.replica.library, scheme, image)
    runtime = RUNTIMES["torch-compile"]
    token_bytes = run.replica.memory.kv_bytes_per_token * deployment.tensor_parallel
    facts = {
        "image_scheme": scheme.id,
        "image_pixels": size,
        "images_per_request": item.images,
        "image_tokens": image.language_tokens,
        "encoder_passes": image.num_passes,
        "encoder_patches": image.patches_per_pass,
        "encoder_s": Quantity(seconds, seconds * runtime.low, seconds * runtime.high, run.replica.basis),
        "prompt_tokens": tokens,
        "text_tokens": text_tokens,
        "kv_bytes_per_request": tokens * token_bytes,
        "text_bytes_per_request": text_tokens * token_bytes,
        "encoders": None
        if pool is None
        else {
            "num_encoders": pool.num_encoders,
            "capacity_requests_per_s": pool.capacity_per_s,
            "transfer_s": pool.transfer_s,
        },
        "num_together": parse_clients(asked.load.concurrency) if asked.load.concurrency else None,
    }
    inputs = _inputs(
        run,
        plan,
        {
            "image_scheme": scheme.id,
            "image_size": size,
            "images": item.images,
            "encoder_gpus": asked.encoder_gpus,
        },
    )
    answer = vision_answer(run, plan.traffic, inputs, notes, facts)
    return with_calibration(answer, given_calibration(shared.calibration), (deployment.accelerator.id,))


def _encoder_pool(
    asked: VisionInput, deployment: Deployment, scheme: ImageScheme, image: ImageTokens
) -> EncoderPool:
    """Return the encoders of a pool of their own.

    Assumes: embeddings travel in 16 bits over one accelerator's network port, after a round trip through the router.
    Raises: AdvisorError: clients wait for their answers, or the model has no recorded encoder.
    """
    if asked.load.rate is None:
        raise AdvisorError(
            "a pool of encoders needs a rate",
            why="clients that wait for their answers are not simulated behind one",
            fix="--rate 4 instead of --concurrency",
        )
    number = asked.encoder_gpus or 1
    images = asked.item.images
    rate = topology_of(deployment.accelerator, 2, ranks_per_node=1).inter_bytes_per_s
    num_bytes = images * image.language_tokens * deployment.model.hidden_size * _EMBEDDING_BYTES
    image_s = image_encoder_s(deployment, operator_library(deployment), scheme, image)
    return EncoderPool(number, image_s, images, HANDSHAKE_S + num_bytes / rate)


def adapters(asked: AdaptersInput, shared: SharedOptions) -> Answer:
    """Simulate a deployment with LoRA adapters, beside the same one without.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, or it does not fit.
    """
    those = Adapters(asked.count, asked.rank, asked.slots, asked.popularity)

    run, plan, notes = _simulate_load(asked, asked.load, partial(lora_replica, adapters=those), shared)
    plain, _, _ = _simulate_load(asked, asked.load, _as_it_is, shared)
    inputs = _inputs(run, plan, {"adapters": asked.count, "rank": asked.rank, "slots": asked.slots})
    answer = adapter_answer(run, plain, those, plan.traffic, inputs, notes)
    return with_calibration(
        answer, given_calibration(shared.calibration), (run.replica.deployment.accelerator.id,)
    )


def _as_it_is(replica: ReplicaModel) -> ReplicaModel:
    return replica


def _simulate_load(
    asked: VisionInput | AdaptersInput,
    load: LoadOptions,
    changed: Callable[[ReplicaModel], ReplicaModel],
    shared: SharedOptions,
    encoders: EncoderPool | None = None,
) -> tuple[ServeRun, LoadPlan, tuple[str, ...]]:
    deployment, notes = deployment_of(asked.model, asked.gpu, asked.layout)
    plan = load_of(load, deployment.model)
    calibration: Calibration | None = given_calibration(shared.calibration)
    replica = changed(
        model_replica(
            deployment,
            mean_input_tokens=plan.mean_input_tokens,
            mean_output_tokens=plan.mean_output_tokens,
            max_context_tokens=plan.longest_request_tokens,
            context_spread=plan.context_spread,
            settings=EngineSettings(),
            calibration=calibration,
        )
    )
    started = time.perf_counter()

    def run(workload: Workload) -> ServingResult:
        waited_s = None
        if encoders is not None:
            workload, waited_s = behind_encoders(workload, encoders, shared.seed)
        result = simulate(
            replica.surface,
            replica.policy,
            workload,
            num_replicas=deployment.num_replicas,
            records=encoders is not None,
            seed=shared.seed,
        )
        return result if waited_s is None else with_encoding(result, waited_s)

    result = run(plan.workload)
    sent = None if plan.traffic.concurrency or load.trace else plan.traffic.rate_per_s
    while not load.requests and (longer := num_requests_to_run_again(result, sent)):
        plan = replace(plan, workload=replace(plan.workload, num_requests=longer))
        result = run(plan.workload)
    wall_s = time.perf_counter() - started
    check_served(result)
    load_per_s = None if plan.traffic.concurrency else plan.traffic.rate_per_s
    overload = overload_of(result, load_per_s)
    prediction = predict_serving(result, replica, clients_wait=plan.traffic.concurrency is not None)
    if load_per_s is not None:
        # Encoders before the replicas are no part of the surface that says what these carry.
        most = deployment.num_replicas * capacity_per_s(replica, plan.traffic) if encoders is None else None
        prediction = within_sent(
            prediction, load_per_s, is_overloaded=overload is not None, capacity_per_s=most
        )
    needed = num_requests_to_tell(result, sent)
    shown = ServeRun(replica, result, prediction, wall_s, overload=overload, needed_requests=needed)
    return shown, plan, notes


def _inputs(run: ServeRun, plan: LoadPlan, more: Mapping[str, object]) -> dict[str, object]:
    return as_inputs(run.replica.deployment, plan) | dict(more)

"""A question about prompts with images: the tokens of an image, and its encoder as prompt tokens of equal work."""

from dataclasses import replace

from advisor.ask.items import parse_size
from advisor.ask.levers import beside_of
from advisor.ask.options import SharedOptions
from advisor.ask.scenario import needed_model, scenario_of
from advisor.ask.work import WorkQuestion
from advisor.catalog import accelerators, engines, models, vision
from advisor.catalog.schema import Model
from advisor.decide.engine_classes import check_classes
from advisor.decide.offers import named_accelerators
from advisor.decide.scenario import Scenario
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.workloads.encoder_pass import pass_flop
from advisor.simulator.workloads.vision import ImageTokens, tokens_of_image


def vision_question(asked: WorkQuestion, shared: SharedOptions) -> tuple[Scenario, tuple[str, ...]]:
    """Return a question about serving prompts with images, and notes on what was understood.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, or the model sees no images.
    """
    name = needed_model(asked.model, "vision")
    item = asked.item
    model = models.get(name).record
    # A model that no engine starts has that reason, however it reads images.
    plain, _ = scenario_of(name, asked.load, asked.objectives, asked.where, asked.shown.top, shared)
    check_classes(
        model, plain.constraints.engines_of(engines.all_engines()), named_accelerators(plain.constraints)
    )
    scheme = vision.get(item.image_scheme) if item.image_scheme else vision.scheme_of(model)
    width, height = parse_size(item.image_size or "1024x1024")
    image = tokens_of_image(scheme, width, height)
    encoder_tokens = round(encoder_work_tokens(model, scheme, image))
    text = asked.load.input_tokens or 64
    tokens = text + item.images * (image.language_tokens + encoder_tokens)
    load = replace(asked.load, input_tokens=tokens)
    scenario, notes = scenario_of(name, load, asked.objectives, asked.where, asked.shown.top, shared)
    count = item.images
    told = (
        f"{count} x {width} x {height} pixels are {count * image.language_tokens:,} tokens under {scheme.id}; "
        f"encoding counts as {count * encoder_tokens:,} more, so a prompt of {text} counts {tokens:,}"
    )
    return scenario.model_copy(update={"beside": beside_of(asked.beside)}), (*notes, told)


def encoder_work_tokens(model: Model, scheme: vision.ImageScheme, image: ImageTokens) -> float:
    """Return prompt tokens whose multiplications are as many as encoding one image takes.

    passes · flop of a pass / (2 · active parameters)

    Assumes: encoder and language model reach the same share of the peak.
    """
    tower = Deployment(scheme.tower_model(), accelerators.by_id("h100-sxm"), engines.by_id("vllm"))
    flop = image.num_passes * pass_flop(tower, image.patches_per_pass)
    return flop / (2.0 * parameter_count(model).active)

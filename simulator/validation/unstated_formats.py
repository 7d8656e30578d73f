"""Number formats of caches and states that a published benchmark's scripts chose and its table does not tell."""

from dataclasses import replace

from advisor.catalog.recipes import formats_of
from advisor.catalog.schema import GatedDeltaNet, Mamba2, Mixer, Model
from advisor.simulator.deployment import Deployment
from advisor.simulator.validation.recipe import INFERENCEX, is_inferencex, published_run
from advisor.simulator.validation.serving_case import ServingCase


def as_stored(deployment: Deployment, case: ServingCase) -> Deployment:
    """The deployment of a case that states no format of its cache, with the formats of its benchmark's scripts.

    Source: catalog/data/unstated_formats.toml.
    """
    if case.kv_dtype != "auto" or not is_inferencex(case):
        return deployment
    model_id, architecture = deployment.model.id, deployment.accelerator.architecture
    formats = formats_of(published_run(INFERENCEX, case, model_id, architecture))
    if formats is None:
        return deployment
    model = with_states(deployment.model, formats.state_dtype) if formats.state_dtype else deployment.model
    return replace(deployment, model=model, kv_dtype=formats.kv_dtype)


def with_states(model: Model, state_dtype: str) -> Model:
    """A model whose mixers with a constant state keep it in this format. Source: own definition."""

    def stored(mixer: Mixer | None) -> Mixer | None:
        if isinstance(mixer, GatedDeltaNet | Mamba2):
            return mixer.model_copy(update={"state_dtype": state_dtype})
        return mixer

    layers = tuple(group.model_copy(update={"mixer": stored(group.mixer)}) for group in model.layers)
    return model.model_copy(update={"layers": layers})

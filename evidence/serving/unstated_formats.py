"""Number formats that published tables do not tell: of caches and states, which scripts chose, and of checkpoints."""

from dataclasses import replace

from advisor.catalog.checkpoints import checkpoint_format
from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.recipes import formats_of
from advisor.catalog.schema import GatedDeltaNet, Mamba2, Mixer, Model
from advisor.evidence.serving.case import ServingCase
from advisor.evidence.serving.recipe import INFERENCEX, is_inferencex, published_run
from advisor.simulator.deployment import Deployment

_WIDE = ("bf16", "fp16")


def as_published(case: ServingCase) -> ServingCase:
    """A case that states 16-bit weights of a checkpoint with fewer bits, in that checkpoint's format.

    Assumes: engines load a checkpoint as it is published; a table that says bf16 of it says what it computes in.
    Source: catalog/data/models.
    """
    published = checkpoint_format(case.model)
    if published is None or case.weight_dtype not in _WIDE:
        return case
    narrow = bytes_per_element(published) < bytes_per_element(case.weight_dtype)
    return replace(case, weight_dtype=published) if narrow else case


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

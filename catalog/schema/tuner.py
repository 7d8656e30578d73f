"""Settings files of frameworks that tune models: what each calls the parts of a training plan."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from advisor.catalog.schema.record import Record, Source

SettingStyle = Literal["yaml", "pairs", "python"]
"""How a framework reads settings: a YAML file, key=value words of its command, or arguments of calls in Python."""
Words = Mapping[str, Mapping[str, Any]]
"""Keys and values that say each word of one part of a plan. A text {name} is a quantity of the plan; a key that starts
with $ is a part of the command itself."""


class Kin(Record):
    """A program that takes the arguments of a framework's record, with a release and defaults of its own."""

    name: str
    program: str = ""
    """Program by which a shell starts it; empty: a script of its user's."""
    marks: str
    """Regular expression that a text of it has."""
    release: str
    recomputes_unstated: bool
    unstated: Mapping[str, int] = Field(default_factory=dict)


class Tuner(Record):
    """A framework that tunes models, with its own words for every part of a plan.

    A word that a part does not list is one for which the release has no setting: such plans are refused.
    """

    id: str
    names: tuple[str, ...] = ()
    """Other names of the framework."""
    marks: tuple[str, ...] = ()
    """Settings, programs and paths of which a text of it has at least one; empty: its other settings tell it apart."""
    kin: tuple[Kin, ...] = ()
    """Programs of the same arguments, of which a text may be instead; the first whose marks it has."""
    unstated: Mapping[str, int] = Field(default_factory=dict)
    """Quantities that the release takes where settings do not state them, by their names here."""
    program: str = ""
    """Program by which a shell starts it; empty: a script of its user's."""
    former_keys: Mapping[str, str] = Field(default_factory=dict)
    """Keys of earlier releases, with the key of this one."""
    families: tuple[str, ...]
    """Families whose plans its settings say, as in `TrainingJob.framework`."""
    release: str
    packages: tuple[str, ...]
    """Names and releases on the package index that install it."""
    python: str = ""
    """Oldest Python for which the index has the release; empty if all in use have it."""
    style: SettingStyle
    command: str
    """Lines that write the settings and start the run; $settings, or one $name for each call of Python."""
    always: Mapping[str, Any] = Field(default_factory=dict)
    """Keys of every plan: the model and its quantities among them."""
    task: Words
    method: Words
    adapters: Words
    """Matrices that have adapters: all, attention, query_value, or none. {matrices}: their names in Transformers as a
    list, {matrix_names}: between commas."""
    optimizer: Words
    precision: Words
    """Format and what learns: `bf16 full`, `bf16 adapters`."""
    attention: Words
    sequences: Words
    """packed: whole sequences in one row, which need a kernel with lengths; wrapped: cut to rows of one length; padded;
    given: as the data of another task than sft come."""
    checkpointing: Words
    """Recomputation of layers, whether ranks divide the weights, and whether inputs of layers are in host memory:
    `none`, `full`, `full divided`, `full in host memory`."""
    recomputes_unstated: bool
    """Whether layers are recomputed where the settings do not say it."""
    loads_divided: bool = False
    """Whether ranks read a 4-bit model in parts, so that no accelerator has to hold all of it while it loads."""
    features: tuple[str, ...] = ()
    """Features of every job that its settings start, as `TrainingJob.features` names them."""
    switches: Mapping[str, tuple[Mapping[str, Any], ...]] = Field(default_factory=dict)
    """Settings that stand for a switch of `simulate train --features`: any of several sets of keys and values. A text
    may be one of a list, and an empty text stands for a key that is not stated."""
    loss_features: tuple[str, ...] = ()
    """Features that its loss has in plain tuning alone."""
    offloads_checkpoints: bool = False
    """Whether inputs of recomputed layers are in host memory, if the plan leaves it to the framework."""
    sharding: Words
    """alone: one rank; copies: whole states on every rank; zero2, zero3; `zero3 host`: divided weights in host
    memory."""
    ranks: Words
    """one: a single accelerator; node; nodes."""
    code: Words
    """published: code of the framework's own packages; own: code of the model's repository."""
    template: Words | None = None
    """named: a template that the framework must be told, without which models with images take none; own: that of the
    tokenizer. None: it chooses for itself."""
    length: Words
    """steps: a number of optimizer steps; epochs: the framework's default."""
    recipe: Words | None = None
    """Task, what learns and on how many ranks, as in `sft adapters one`; None: the release has one program
    for all."""
    models: Mapping[str, str] = Field(default_factory=dict)
    """Name of each model of the catalog that it defines itself; empty: it loads every model of Transformers."""
    configurations: tuple[str, ...] = ()
    """Configurations that the release has; empty: it needs none."""
    placeholders: Mapping[str, str] = Field(default_factory=dict)
    """Meaning of the words that its user fills in."""
    source: Source

"""Settings of frameworks that tune models, as options of a command: Axolotl, LLaMA-Factory, torchtune, TRL, ..."""

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import yaml

from advisor.catalog import models
from advisor.catalog.errors import AdvisorError
from advisor.catalog.files import read_text
from advisor.catalog.schema.tuner import Tuner
from advisor.catalog.training import all_attention_matrices, tuners
from advisor.cli.engine_words import places_of_lone_words, plain_signs
from advisor.cli.launch_files import is_answer, is_notebook, python_and_shell
from advisor.cli.launchers import (
    States,
    is_file,
    is_of_accelerate,
    read_start,
    refuse_file_of_states,
    script_of,
    settings_of_deepspeed,
    states_of,
)
from advisor.cli.python_source import settings_of_python
from advisor.cli.trainer_settings import options_of_training
from advisor.simulator.training.launch_settings import QUANTITY
from advisor.simulator.training.switches import SWITCHES

Settings = Mapping[str, Any]
_PYTHON: Final = "unsloth"
"""Framework whose settings are arguments in Python, as those of TRL are."""
_OF_TRL: Final = {
    "model_name_or_path": "load.model_name",
    "model_max_length": "load.max_seq_length",
    "max_seq_length": "load.max_seq_length",
    "lora_r": "peft.r",
    "lora_alpha": "peft.lora_alpha",
    "lora_target_modules": "peft.target_modules",
    "block_size": "load.max_seq_length",
    "max_length": "load.max_seq_length",
    "load_in_4bit": "load.load_in_4bit",
    "gradient_checkpointing": "load.use_gradient_checkpointing",
}
"""Arguments of TRL's scripts, and of those of Transformers, that are none of a trainer's."""
_LEAST_KNOWN: Final = 3
_MOST_CHARACTERS: Final = 200_000
_NOT_OF_A_PLAN: Final = re.compile(r"learning_rate|datasets?$|dataset\.(?!packed)")
_OF_PLANS: Final = ("method", "adapters", "optimizer", "precision", "sequences", "checkpointing", "sharding")
"""Parts of a plan that settings say; the others follow from the machines."""
_LOOPS: Final = ("dpo", "orpo", "kto", "reward", "grpo", "ppo", "rloo")
_STAGE: Final = re.compile(r"(?:zero|z)[_-]?([0-3])", re.IGNORECASE)
_SEVERAL_RANKS: Final = "_distributed"
"""End of the names of torchtune's recipes whose ranks divide the states. Source: torchtune 0.6.1, recipes."""
_OF_DEEPSPEED_ALONE: Final = ("1", "2")
"""Stages of DeepSpeed that the family of adapters has no plan of."""
_OFFLOADS: Final = "offload"
"""Part of the names of DeepSpeed's configurations that keep states in host memory: ds_z3_offload_config.json."""
_OF_SHARDING: Final = re.compile(r"deepspeed|fsdp|config_file|accelerate", re.IGNORECASE)
"""Keys of settings, and of launchers, whose value may be a file that says how ranks divide the states."""
_SETTINGS_FILES: Final = (".json", ".yaml", ".yml")
_HERE_DOCUMENT: Final = re.compile(
    r"^.*<<-?\s*'?(?P<end>\w+)'?\n(?P<body>.*?)\n(?P=end)$", re.MULTILINE | re.DOTALL
)
_STARTS: Final = re.compile(
    r"\b(?:axolotl|llamafactory-cli|swift|tune|xtuner|trl|accelerate|torchrun|deepspeed|srun|mpirun|mpiexec|python3?)\b"
)


_LAUNCHERS: Final = re.compile(
    r"(?:\S*/)?(?:axolotl|llamafactory-cli|swift|tune|xtuner|trl|accelerate|torchrun|deepspeed|nemo|srun|mpirun|python3?|bash)"
    r"|[A-Z]\w*=\S+"
)
"""First word of a start command, or a variable in front of it."""


def with_tuning_settings(
    arguments: Sequence[str], known: Collection[str], flags: Collection[str]
) -> tuple[list[str], tuple[str, ...]]:
    """Return what was typed with the settings of a framework in it, a file or a command, as options of the command, and
    notes about them. What is typed counts before the settings.

    Raises: AdvisorError: the settings are of a loop of preferences, or a text holds none, and the command plans one
        step.
    """
    arguments = _with_command_in_one(arguments, flags)
    for place in places_of_lone_words(arguments, flags):
        word = arguments[place]
        typed = [one for at, one in enumerate(arguments) if at != place]
        options = _options_of_word(word, known, typed)
        if options is None and "--workload" not in known and _should_train(word):
            raise AdvisorError(
                f"no settings of a framework that trains models in {word if is_file(word) else 'the text'}",
                why=f"settings and commands of {', '.join(tuners())}, TRL, Megatron-LM, NeMo and torchtitan are read",
                fix="type the plan as options: --model 8b --gpus 8 --micro-batch 1",
            )
        if options is None:
            continue
        given = {one.partition("=")[0] for one in typed if one.startswith("-")}
        pairs = (pair for pair in options[0].items() if pair[0] not in given)
        return [*typed, *(one for pair in pairs for one in pair if one)], tuple(options[1])
    return list(arguments), ()


def _should_train(word: str) -> bool:
    """Whether a word can only be a command or a file of a framework that trains: not one word, nor a file of options or
    of a plan."""
    return Path(word).suffix not in (".toml", ".json") if is_file(word) else len(word.split()) > 1


def _with_command_in_one(arguments: Sequence[str], flags: Collection[str]) -> list[str]:
    """Return what was typed with the words of a start command, from its launcher on, as one."""
    lone = places_of_lone_words(arguments, flags)
    start = next((place for place in lone if _LAUNCHERS.fullmatch(arguments[place])), None)
    if start is None or start + 2 > len(arguments):
        return list(arguments)
    return [*arguments[:start], shlex.join(arguments[start:])]


def _options_of_word(
    word: str, known: Collection[str], typed: Sequence[str]
) -> tuple[dict[str, str], list[str]] | None:
    """Return the options for which a file or a text stands, and notes; None if it is of no framework."""
    shown = word if len(word.split()) == 1 else "the command"
    if (found := _read(word)) is None:
        options = _options_of_trainer(word, known, typed)
    else:
        tuner, settings = found
        options = _options(tuner, settings, known, typed)
        options[1].insert(
            0, f"settings of {tuner.names[0] if tuner.names and tuner.id == _PYTHON else tuner.id}"
        )
    if options is not None:
        options[1][0] = f"{shown}: {options[1][0]}"
    return options


def _options_of_trainer(
    word: str, known: Collection[str], typed: Sequence[str]
) -> tuple[dict[str, str], list[str]] | None:
    """Return the options for which a file or text of a framework that trains from scratch stands, and notes."""
    if not (is_file(word) or len(word.split()) > 1):
        return None
    text = read_text(Path(word)) if is_file(word) else word
    return None if is_answer(text) else options_of_training(text, known, typed, _typed_gpus(typed))


def holds_settings(path: Path) -> bool:
    """Whether a file has settings of a framework that trains. Raises: AdvisorError: they name no model."""
    return _read(str(path)) is not None or _options_of_trainer(str(path), (), ()) is not None


def _read(word: str) -> tuple[Tuner, Settings] | None:
    """Return the framework whose settings a file or a command holds, and the settings by dotted keys, or None.

    Raises: AdvisorError: a file says how states are divided, and no more.
    """
    named = is_file(word)
    text = plain_signs(read_text(Path(word)) if named else word)
    text = python_and_shell(text)[0] if is_notebook(text) else text
    if len(text) > _MOST_CHARACTERS or is_answer(text) or not (named or "\n" in text or _STARTS.search(text)):
        return None
    settings = _settings_in(text)
    if named:
        refuse_file_of_states(word, settings)
    rated = {
        tuner.id: sum(key in _keys(tuner) for key in _as_named_by(tuner, settings))
        + _LEAST_KNOWN * (bool(tuner.models and _component(settings)) + _is_started_in(tuner, text))
        for tuner in tuners().values()
        if _has_a_mark(tuner.marks, settings, text)
    }
    best = max(rated, key=lambda name: rated[name])
    tuner = tuners()[best]
    found = _as_named_by(tuner, settings)
    if rated[best] < _LEAST_KNOWN or not (_quantities(tuner, found).get("model") or _component(found)):
        return None
    return _kin_of(tuner, settings, text), found


def _has_a_mark(marks: Sequence[str], settings: Settings, text: str) -> bool:
    """Whether a text has one of a framework's marks: a setting, or part of a path or a program; or there are none."""
    return not marks or any(mark in settings or (not mark.isidentifier() and mark in text) for mark in marks)


def _kin_of(tuner: Tuner, settings: Settings, text: str) -> Tuner:
    """Return a framework, or the one of the same arguments that a text is of, with its own release and defaults."""
    for kin in tuner.kin:
        if re.search(kin.marks, text):
            return tuner.model_copy(
                update={
                    "names": (kin.name,),
                    "release": kin.release,
                    "recomputes_unstated": kin.recomputes_unstated,
                    "unstated": kin.unstated,
                }
            )
    return tuner


def _is_started_in(tuner: Tuner, text: str) -> bool:
    """Return whether a text is a command that starts the program of a framework."""
    programs = [each for each in (tuner.program, *(kin.program for kin in tuner.kin)) if each]
    return any(re.search(rf"(?:^|[\s/]){re.escape(program)} ", text) for program in programs)


def _settings_in(text: str) -> dict[str, Any]:
    """Return the settings of a text: YAML, Python, or a command with its options and the files that it names."""
    if (of_python := settings_of_python(text)) is not None:
        return of_python
    if (written := _HERE_DOCUMENT.search(text)) is not None:
        return _settings_in(text.replace(written[0], "")) | _settings_in(written["body"])
    document = _value_of(text)
    if isinstance(document, Mapping):
        return dict(_flat(document))
    return _settings_of_command(script_of(text))


def _settings_of_command(text: str) -> dict[str, Any]:
    """Return the options of a command, the settings in the files that it names, and the accelerators that it starts."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        return {}
    found: dict[str, Any] = {}
    for place, word in enumerate(words):
        name, equals, value = word.removeprefix("--").partition("=")
        found = _settings_in_file(value if equals else word) | found
        if word.startswith("--") and not equals:
            behind = list(takewhile(lambda each: not each.startswith("--"), words[place + 1 :]))
            key = name.replace("-", "_")
            many = len(behind) > 1 and key in _names_of_matrices()
            found[key] = True if not behind else behind if many else _value_of(behind[0])
        elif equals and (word.startswith("--") or re.fullmatch(r"[\w.]+", name)):
            found[name.replace("-", "_") if word.startswith("--") else name] = _value_of(value)
        elif word.endswith(_SEVERAL_RANKS):
            found["$recipe"] = word
    start = read_start(text)
    of_file = found.get(f"{_ACCELERATE}num_processes")
    if count := start.accelerators or (of_file if isinstance(of_file, int) and of_file > 0 else None):
        found["$gpus"] = count
    elif start.machines:
        found["$machines"] = start.machines
    return found


def _settings_in_file(name: str) -> dict[str, Any]:
    """Return the settings in a file that a command names; those of accelerate's file have keys of their own."""
    if not name.endswith((".yaml", ".yml", ".py")) or not is_file(name):
        return {}
    inner = _settings_in(read_text(Path(name)))
    return (
        {f"{_ACCELERATE}{key}": value for key, value in inner.items()} if is_of_accelerate(inner) else inner
    )


_ACCELERATE: Final = "$accelerate."
"""Start of the keys that settings of accelerate's file have among those of a trainer."""


@cache
def _names_of_matrices() -> frozenset[str]:
    """Return the options that name matrices, behind which several words may stand."""
    keys = {key for tuner in tuners().values() for words in tuner.adapters.values() for key in words}
    of_trl = (name for name, key in _OF_TRL.items() if key in keys)
    return frozenset((*(key.rpartition(".")[2] for key in keys), *of_trl))


def _value_of(text: str) -> Any:
    """Return what a text is in YAML, or the text itself where it is none."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError):
        return text


def _flat(found: Mapping[Any, Any], outer: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{outer}{name}.")
        else:
            is_words = isinstance(value, list) and value and all(isinstance(one, str) for one in value)
            yield f"{outer}{name}", " ".join(value) if is_words and name == "fsdp" else value


def _as_named_by(tuner: Tuner, settings: Settings) -> Settings:
    """Return settings by the keys of a framework's release; those of TRL's scripts by the arguments in Python."""
    if tuner.id != _PYTHON:
        return {tuner.former_keys.get(key, key): value for key, value in settings.items()}
    if any("." in key and not key.startswith("$") for key in settings):
        recomputes = settings.get("args.gradient_checkpointing")
        return settings if recomputes is None else {"load.use_gradient_checkpointing": recomputes, **settings}
    return {
        _OF_TRL.get(key, key if key.startswith("$") else f"args.{key}"): value
        for key, value in settings.items()
    }


def _keys(tuner: Tuner) -> set[str]:
    tables = (getattr(tuner, part) for part in (*_OF_PLANS, "task", "attention", "length"))
    return set(tuner.always).union(*(words for table in tables for words in table.values()))


def _quantities(tuner: Tuner, settings: Settings) -> dict[str, Any]:
    """Return the quantities that settings state, by the name that the framework's record has for them."""
    found: dict[str, Any] = {}
    tables = (tuner.always, *tuner.task.values(), *tuner.method.values(), *tuner.length.values())
    for key, form in ((key, form) for table in tables for key, form in table.items()):
        named = QUANTITY.fullmatch(form) if isinstance(form, str) else None
        if named and settings.get(key) not in (None, "", "auto", -1, 0):
            found.setdefault(named[1], settings[key])
    return found


def _count(quantities: Mapping[str, Any], name: str) -> int | None:
    """Return a quantity that counts something; None if it is not stated.

    Raises: AdvisorError: it is no whole number, or none that a run could have.
    """
    value = quantities.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not re.fullmatch(r"[1-9]\d{0,8}(?:\.0)?", str(value)):
        raise AdvisorError(
            f"{name.replace('_', ' ')} {str(value)[:40]!r} of the settings is no count",
            why="it must be a whole number from 1 to 999,999,999",
            fix="correct it, or leave it out",
        )
    return int(float(value))


def _component(settings: Settings) -> str:
    """Return the name of torchtune's builder of a model, such as lora_llama3_1_8b, which its configuration may say."""
    named = re.match(r"(\w+/[\w.]+?)_(full|q?lora|dora)", str(settings.get("config", "")))
    if named:
        return f"{named[2]}_{re.sub('[/.]', '_', named[1]).lower()}"
    return str(settings.get("model._component_", "")).rpartition(".")[2]


def _word_of(table: Mapping[str, Settings], settings: Settings) -> tuple[str, bool]:
    """Return the word of a part whose constants fit settings best, and whether they state it; a key that is absent is
    off."""
    constants = {
        word: {k: v for k, v in keys.items() if not _NOT_OF_A_PLAN.search(k) and not k.startswith("$")}
        for word, keys in table.items()
    }

    def fit(word: str) -> tuple[float, bool]:
        score = 0.0
        stated = False
        for key, value in constants[word].items():
            own = settings.get(key)
            if isinstance(value, str) and QUANTITY.fullmatch(value):
                score += own is not None
                stated = stated or own is not None
            elif own is None:
                score += 0.5 * (value is False)
            else:
                agrees = _agrees(own, value, word)
                score += 1.0 if agrees else -1.0
                stated = stated or agrees
        return score, stated

    rated = {word: fit(word) for word in constants}
    best = max(rated, key=lambda word: rated[word][0])
    return best, rated[best][1]


def _options(
    tuner: Tuner, settings: Settings, known: Collection[str], typed: Sequence[str]
) -> tuple[dict[str, str], list[str]]:
    """Return the options for which settings stand, and notes on what they leave open."""
    quantities = {**tuner.unstated, **_quantities(tuner, settings)}
    found = _what_learns(tuner, settings, quantities)
    method = found["--method"]
    notes = [
        f"{key} {value} is not known, and not part of the plan" for key, value in _unknown(tuner, settings)
    ]
    task = _task(tuner, settings)
    notes += _notes_on_files(settings)
    searches = "--workload" in known
    if task in _LOOPS:
        if not searches:
            model = found["--model"]
            raise AdvisorError(
                f"the settings are of {task}, which is not one step of tuning",
                why="it needs a reference model or pairs of answers",
                fix=f"advisor recommend --workload rl --algorithm {task} --model {model} --method {method}",
            )
        return found | {"--workload": "rl", "--algorithm": task}, notes
    if searches:
        found["--workload"] = "finetune"
    found["--framework"] = _framework(tuner, settings, method)
    gpus = _gpus(settings, typed, searches, notes)
    if "$gpus" in settings and "--own" not in typed:
        found["--gpus"] = str(settings["$gpus"])
    step, told = _step(tuner, settings, gpus)
    notes += told
    if _word_of(tuner.sequences, settings)[0] == "padded" and "--mean-length" not in typed:
        notes.append("sequences are padded and taken as full: --mean-length N says their mean")
    found |= step
    switches = _switches(tuner, settings) + _adapters(tuner, settings)
    if switches and "--features" in known:
        found["--features"] = ",".join(switches)
    elif switches:
        notes.append(f"{', '.join(switches)} counts in advisor simulate train alone")
    notes += _unread_switches(tuner, settings, switches)
    if not searches:
        found.setdefault("--gpus", str(gpus))
    return found, notes


def _notes_on_files(settings: Settings) -> Iterator[str]:
    """Yield a note for each file of settings that the settings name: what of it counts, and what is not read."""
    for key, value in settings.items():
        name = key.rpartition(".")[2]
        names_file = isinstance(value, str) and value.endswith(_SETTINGS_FILES)
        if not names_file or not _OF_SHARDING.search(name):
            continue
        is_there = is_file(value)
        if value == _deepspeed_file(settings) and (stage := _deepspeed_stage(settings)) is not None:
            if not is_there:
                unread = "" if _OFFLOADS in value else ": what it offloads is not read (--offload-optimizer)"
                yield f"{name} {value} is not there; its name says the stage, zero{stage}{unread}"
        elif not (is_there and any(key.startswith(_ACCELERATE) for key in settings)):
            yield f"{name} {value} is not read: state what it says as options (--sharding, --offload-optimizer)"


def _switches(tuner: Tuner, settings: Settings) -> list[str]:
    """Return the switches of a run for which settings stand, as `simulate train --features` names them."""
    return [
        switch
        for switch, choices in tuner.switches.items()
        if any(all(_says(settings.get(key), value) for key, value in keys.items()) for keys in choices)
    ]


def _adapters(tuner: Tuner, settings: Settings) -> list[str]:
    """Return the switch of adapters on attention alone, or on queries and values alone; none where they are on more, or
    where settings do not name them.

    Source: catalog/data/training/tuners.toml and models.toml.
    """
    keys = {key for words in tuner.adapters.values() for key in words}
    names = {name for key in keys if key in settings for name in _matrices_in(key, settings[key])}
    own = [value for words in tuner.adapters.values() for value in words.values() if isinstance(value, list)]
    pairs = {frozenset(rows[:3:2]) for rows in all_attention_matrices() if len(rows) == _ALONE}
    if not names or not names.issubset({name for rows in (*all_attention_matrices(), *own) for name in rows}):
        return []
    return ["adapters_query_value" if names in pairs else "adapters_attention"]


_ALONE: Final = 4
"""Number of matrices of attention where none are joint: queries, keys, values and outputs."""


def _matrices_in(key: str, value: Any) -> Iterator[str]:
    """Yield the names in the setting of a key; a key that is on stands for its own matrices."""
    if value is True:
        yield key
    elif value:
        yield from re.findall(r"[A-Za-z][\w-]*", str(value))


def _says(own: Any, value: Any) -> bool:
    """Whether a setting, or one of a list, is the value of a switch; an empty one is that of no setting."""
    return value in own if isinstance(own, list) else own == value or (own is None and value == "")


def _unread_switches(tuner: Tuner, settings: Settings, switches: Collection[str]) -> Iterator[str]:
    """Yield a note for each setting of a switch, or named after one, that is on and is part of none that counts."""
    known = {
        (key, value)
        for switch, choices in tuner.switches.items()
        for keys in choices
        for key, value in keys.items()
        if switch in switches
    }
    keys = {key for choices in tuner.switches.values() for each in choices for key in each}
    for name, stated in settings.items():
        is_switch = name in keys or any(word in name and word not in switches for word in SWITCHES)
        for one in stated if isinstance(stated, list) else [stated]:
            if is_switch and isinstance(one, str | bool) and one and (name, one) not in known:
                yield f"{name} {str(one)[:80]} is not read: state what it does as --features"


def _what_learns(tuner: Tuner, settings: Settings, quantities: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of the model, the method and the numbers that it is trained in."""
    model = _model(tuner, settings, quantities)
    built = re.match(r"(full|q?lora|dora)_", _component(settings))
    method, _ = _word_of(tuner.method, settings)
    if built and (built[1] != "lora" or method == "full"):
        method = built[1]
    found = {"--model": model, "--method": method}
    if rank := _count(quantities, "rank"):
        found["--lora-rank"] = str(rank)
    for option, part in (("--optimizer", "optimizer"), ("--precision", "precision")):
        word, stated = _word_of(getattr(tuner, part), settings)
        if stated:
            found[option] = word.split()[0]
    return found


def _step(tuner: Tuner, settings: Settings, gpus: int) -> tuple[dict[str, str], list[str]]:
    """Return the options of one step, and notes on its batch and on what is not stated."""
    stated = _quantities(tuner, settings)
    quantities = {**tuner.unstated, **stated}
    micro = _count(quantities, "micro_batch") or 1
    accumulation = _count(quantities, "accumulation") or 1
    sequence = _count(quantities, "sequence")
    found = {"--micro-batch": str(micro), "--global-batch": str(micro * accumulation * gpus)}
    missing = [
        f"{name.replace('_', '-')} ({tuner.unstated[name]:,}, the default of {tuner.release})"
        if name in tuner.unstated
        else name.replace("_", "-")
        for name in ("micro_batch", "accumulation", "sequence")
        if not stated.get(name)
    ]
    unsaid = f"; not stated: {', '.join(missing)}" if missing else ""
    notes = [f"batch: {micro} x {accumulation} passes x {gpus} accelerators{unsaid}"]
    if sequence:
        found["--sequence"] = str(sequence)
    checkpointing, is_said = _word_of(tuner.checkpointing, settings)
    if not is_said:
        checkpointing = "full" if tuner.recomputes_unstated else "none"
        notes.append(f"recomputation is not stated: {checkpointing}, the default of {tuner.release}")
    found["--recompute"] = checkpointing.split()[0]
    states = _states(tuner, settings, gpus)
    found["--sharding"] = states.sharding
    if _deepspeed_stage(settings) is None and (states.optimizer_in_host or states.parameters_in_host):
        notes.append(
            "states that FSDP keeps in host memory are not part of the plan; --framework deepspeed plans them"
        )
    elif states.optimizer_in_host:
        found["--offload-optimizer"] = ""
    if "--offload-optimizer" in found and states.parameters_in_host:
        found["--offload-parameters"] = ""
    if steps := _count(quantities, "steps"):
        found["--tokens"] = str(steps * micro * accumulation * gpus * (sequence or 1))
    return found, notes


def _task(tuner: Tuner, settings: Settings) -> str:
    """Return what is learned: examples, or preferences, which a trainer in Python has in its name."""
    trainer = str(settings.get("$name", "")).lower()
    return trainer if trainer in _LOOPS else _word_of(tuner.task, settings)[0]


def _unknown(tuner: Tuner, settings: Settings) -> Iterator[tuple[str, Any]]:
    """Yield the settings of a plan whose values no word of the framework's record has."""
    for part in ("method", "optimizer", "precision", "checkpointing"):
        table: Mapping[str, Settings] = getattr(tuner, part)
        pairs = [(key, value, word) for word, keys in table.items() for key, value in keys.items()]
        for key in dict.fromkeys(key for key, _, _ in pairs if not _NOT_OF_A_PLAN.search(key)):
            known = [(value, word) for name, value, word in pairs if name == key]
            own = settings.get(key)
            is_said = isinstance(own, str | int | float) and not isinstance(own, bool)
            is_quantity = any(QUANTITY.fullmatch(str(value)) for value, _ in known)
            if is_said and not is_quantity and not any(_agrees(own, value, word) for value, word in known):
                yield key, own


def _agrees(own: Any, value: Any, word: str) -> bool:
    """Whether a setting says a value of a framework's record, whose word may be the value itself."""
    plain = own.removeprefix("paged_") if isinstance(own, str) else own
    is_on = value is True and isinstance(own, str)  # auto, unsloth
    return plain in (value, word) or is_on or (isinstance(value, str) and str(plain).startswith(value))


def _model(tuner: Tuner, settings: Settings, quantities: Mapping[str, Any]) -> str:
    """Return the model that settings name: an id, or torchtune's builder of one."""
    component = re.sub(r"^(?:full|q?lora|dora)_", "", _component(settings))
    for model, name in tuner.models.items():
        if name.replace("/", "_").replace(".", "_").lower() == component.lower().replace("__", "_"):
            return model
    return models.name_in_path(str(quantities.get("model", component)))


def _framework(tuner: Tuner, settings: Settings, method: str) -> str:
    """Return the framework that prices a plan: the one of the settings where it is a family's own, else the family."""
    stage = _deepspeed_stage(settings)
    if stage is not None and (method == "full" or stage in _OF_DEEPSPEED_ALONE):
        return "deepspeed"
    family = "peft" if method != "full" and "peft" in tuner.families else "fsdp"
    is_own = tuner.id != _PYTHON and tuner.families[0] == family
    return tuner.id if is_own else family


def _gpus(settings: Settings, typed: Sequence[str], searches: bool, notes: list[str]) -> int:
    """Return the number of accelerators, as typed or as the command starts processes; one, with a note, if nothing says
    it.

    Raises: AdvisorError: machines are stated, and not how many accelerators each has.
    """
    if (count := _typed_gpus(typed) or settings.get("$gpus")) is not None:
        return int(count)
    if machines := settings.get("$machines"):
        raise AdvisorError(
            f"the command starts {machines} machines, and does not say how many accelerators each has",
            why="a launcher takes all that it finds",
            fix=f"--gpus {8 * machines}, for eight on each",
        )
    if not searches:
        notes.append("the number of accelerators is not stated: 1 is taken, and --gpus N says another")
    return 1


def _typed_gpus(typed: Sequence[str]) -> int | None:
    """Return the number of accelerators that is typed; None if none is."""
    for place, word in enumerate(typed):
        name, equals, value = word.partition("=")
        text = value if equals else next(iter(typed[place + 1 :]), "")
        if name == "--gpus" and text.isdigit():
            return int(text)
        if name == "--own" and (count := re.match(r"\d+", text)):
            return int(count[0])
    return None


def _deepspeed_stage(settings: Settings) -> str | None:
    """Return the stage of DeepSpeed's configuration, which its file or the name of that says; None without one."""
    named = _deepspeed_file(settings)
    if named is None:
        return None
    if is_file(named) and (stage := re.search(r'"stage"\s*:\s*([0-3])', read_text(Path(named)))):
        return stage[1]
    stage = _STAGE.search(Path(named).name)
    return stage[1] if stage else None


def _deepspeed_file(settings: Settings) -> str | None:
    """Return the file of DeepSpeed's configuration that settings name, or that of accelerate whose name alone tells its
    stage; None without one."""
    named = {key.rpartition(".")[2]: value for key, value in settings.items() if isinstance(value, str)}
    for name in ("deepspeed", "deepspeed_config", "deepspeed_config_file"):
        if named.get(name):
            return named[name][:4096]
    for name in ("config_file", "accelerate_config"):
        if (launched := named.get(name)) and not is_file(launched) and _STAGE.search(launched):
            return launched[:4096]
    return None


def _states(tuner: Tuner, settings: Settings, gpus: int) -> States:
    """Return how settings, and the files that they name, divide states among accelerators.

    Raises: AdvisorError: DeepSpeed's file and the settings state batches that do not agree.
    """
    found = _states_under_deepspeed(tuner, settings, gpus)
    if found is None and str(settings.get("$recipe", "")).endswith(_SEVERAL_RANKS):
        found = States("zero2" if settings.get("fsdp_reshard_after_forward") is False else "zero3")
    found = found or states_of(settings)
    if found is None:
        word, stated = _word_of(tuner.sharding, settings)
        found = States(word.split()[0] if stated and word.startswith("zero") else "none")
    return found._replace(sharding="none") if gpus == 1 else found


def _states_under_deepspeed(tuner: Tuner, settings: Settings, gpus: int) -> States | None:
    """Return how DeepSpeed's file, or its name, divides states; None without one."""
    file = _deepspeed_file(settings)
    if file is None:
        return None
    if is_file(file):
        quantities = _quantities(tuner, settings)
        sizes = {name: _count(quantities, name) for name in ("micro_batch", "accumulation")}
        found = states_of(settings_of_deepspeed(Path(file), sizes, gpus))
        if found is not None:
            return found
    stage = _deepspeed_stage(settings)
    if stage is None:
        return None
    in_host = _OFFLOADS in Path(file).name
    return States(f"zero{stage}" if stage != "0" else "none", in_host, in_host and stage == "3")

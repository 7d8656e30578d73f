"""Replicas that each get a share of the requests of their own: conversations that stay with one, long prompts apart,
replicas of other kinds.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from advisor.ask.deployment import DEFAULT_REQUESTS, LoadPlan, stated_deployment
from advisor.ask.measures import parse_seconds, parse_tokens
from advisor.ask.traffic import traffic_of
from advisor.catalog.errors import AdvisorError
from advisor.catalog.resolve import near_misses
from advisor.commands.simulate_serve.options import Guessing, ServeInput
from advisor.decide.bounds import capacity_per_s
from advisor.decide.load_runs import LoadShare, SplitModel, lengths_of, run_at
from advisor.decide.scenario import Traffic, within_window
from advisor.decide.split import traffic_in
from advisor.render.numbers import layout_words
from advisor.simulator.deployment import Deployment
from advisor.simulator.quantity import Quantity
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.serving import Poisson, ServingResult, Workload
from advisor.simulator.serving.metrics import pool_runs
from advisor.simulator.serving_prediction import ServingPrediction

_KEEPS_UP: Final = 0.9
"""Part of the offered rate that replicas serve which keep up with it; filling their batches takes the rest."""
_FROM: Final = "from"
_SHARE: Final = "share"
_EXAMPLES: Final = {
    "--long-prompts": "--long-prompts from=30465:gpu=h200-sxm:tp=8:replicas=2",
    "--other-replicas": "--other-replicas share=0.4:gpu=l4:replicas=2",
}
_LAYOUT: Final[Mapping[str, type]] = {
    "tp": int,
    "pp": int,
    "dp": int,
    "ep": int,
    "replicas": int,
    "precision": str,
    "kv-precision": str,
}
_GUESSING: Final[Mapping[str, type]] = {"speculative": str, "draft-tokens": int, "acceptance": float}
_ITSELF: Final[Mapping[str, Callable[[str], Any]]] = {
    "gpu": str,
    "max-num-seqs": int,
    "max-num-batched-tokens": int,
    "prefix-caching": lambda text: text == "on",
    "power-cap": str,
}
_READ: Final[Mapping[str, Callable[[str], Any]]] = {
    **_LAYOUT,
    **_GUESSING,
    **_ITSELF,
}
_FIRST: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "--long-prompts": (_FROM, lambda text: parse_tokens(text, "--long-prompts")),
    "--other-replicas": (_SHARE, float),
}
"""The part that says which requests replicas get, and how it is read, by option."""

Modelled = Callable[[Deployment, LoadPlan, ServeInput], ReplicaModel]
"""Makes the replica of a deployment for a load, as typed."""


@dataclass(frozen=True, slots=True)
class SharesRun:
    """A simulation of shares, with the replica that represents the whole: the one for long prompts if it exists."""

    plan: LoadPlan
    replica: ReplicaModel
    result: ServingResult
    words: str
    capacity_per_s: float | None
    """Most requests per second of all replicas, by the step-cost surface; None where clients wait for outputs."""

    def of_all(self, prediction: ServingPrediction) -> ServingPrediction:
        """Return a prediction with the rates of all replicas together: those that are offered, where they keep up."""
        traffic = self.plan.traffic
        served = self.result.steady_requests_per_s or 0.0
        per_s = traffic.rate_per_s
        if per_s is None or served < _KEEPS_UP * per_s:
            per_s = served or per_s or 0.0
        tokens = traffic.mean_input_tokens, traffic.mean_output_tokens
        rates = {
            "requests_per_s": per_s,
            "output_tokens_per_s": per_s * tokens[1],
            "total_tokens_per_s": per_s * sum(tokens),
        }
        changed = {}
        for name, rate in rates.items():
            before = getattr(prediction, name)
            changed[name] = before.scale(rate / before.value)
        return replace(
            prediction,
            requests_per_s=_exactly(changed["requests_per_s"], rates["requests_per_s"]),
            output_tokens_per_s=_exactly(changed["output_tokens_per_s"], rates["output_tokens_per_s"]),
            total_tokens_per_s=_exactly(changed["total_tokens_per_s"], rates["total_tokens_per_s"]),
        )


def _exactly(quantity: Quantity, value: float) -> Quantity:
    """Return a quantity whose value is exactly that of a definition, not its product by rounded factors."""
    return replace(quantity, value=value, low=min(quantity.low, value), high=max(quantity.high, value))


def _deployment_of(typed: ServeInput) -> Deployment:
    return stated_deployment(typed.model, typed.gpu, typed.layout, typed.flags)[0]


def in_shares(
    asked: ServeInput, deployment: Deployment, modelled: Modelled, seeds: Sequence[int]
) -> SharesRun:
    """Run replicas that each get their share of the requests, as `advisor recommend` plans them.

    Raises: AdvisorError and its kinds: there is no rate, an option means nothing here, the long side is malformed, or
        something does not fit.
    """
    _check(asked)
    whole, _ = within_window(traffic_of(asked.load), deployment.model)
    if whole.concurrency is not None:
        return _of_clients(asked, deployment, modelled, whole, seeds)
    if whole.rate_per_s is None:
        raise AdvisorError("a share of the load needs a load", fix="--rate 10")
    sides = [(asked, deployment, whole)]
    fractions = [1.0]
    if asked.other_replicas is not None:
        others = _other_kinds(asked, asked.other_replicas)
        sides += [(each, _deployment_of(each), whole) for _, each in others]
        fractions = [1.0 - sum(share for share, _ in others), *(share for share, _ in others)]
    if asked.long_prompts is not None:
        start, long = _long_side(asked, asked.long_prompts)
        sides = [
            (asked, deployment, traffic_in(whole, 1, start - 1)),
            (long, _deployment_of(long), traffic_in(whole, start)),
        ]
        fractions = [(traffic.rate_per_s or 0.0) / whole.rate_per_s for _, _, traffic in sides]
    count = asked.load.requests or DEFAULT_REQUESTS
    shares = list[LoadShare]()
    words = list[str]()
    for (typed, run, traffic), fraction in zip(sides, fractions, strict=True):
        replica = modelled(run, _plan(traffic, count), typed)
        shares.append(LoadShare(replica, traffic, fraction, run.num_replicas))
        words.append(layout_words(run, run.accelerator.id, run.num_replicas))
    split = SplitModel(tuple(shares))
    result = pool_runs([run_at(split, whole, whole.rate_per_s, count, seed) for seed in seeds])
    where = f"{words[0]} for short prompts, {words[-1]} for long ones" if asked.long_prompts else ""
    if asked.other_replicas:
        each = zip(words, fractions, strict=True)
        where = ", ".join(f"{name} for {fraction:.0%} of the requests" for name, fraction in each)
    capacity = min(
        share.num_replicas * capacity_per_s(share.replica, share.traffic) / share.fraction for share in shares
    )
    return SharesRun(_plan(whole, count), shares[-1].replica, result, where, capacity)


def _of_clients(
    asked: ServeInput, deployment: Deployment, modelled: Modelled, whole: Traffic, seeds: Sequence[int]
) -> SharesRun:
    """Run one replica with its share of the clients, who begin one after the other within `--ramp`."""
    assert whole.concurrency is not None
    replicas = deployment.num_replicas
    count = asked.load.requests or DEFAULT_REQUESTS
    clients = math.ceil(whole.concurrency / replicas)
    plan = _plan(whole, count)
    replica = modelled(deployment, plan, asked)
    spacing_s = parse_seconds(asked.load.ramp, "--ramp") / clients if asked.load.ramp else 0.0
    runs = [run_at(replica, whole, clients, count, seed, spacing_s=spacing_s) for seed in seeds]
    result = pool_runs(runs)
    scale = whole.concurrency / clients
    rates = {
        name: scale * rate
        for name in ("steady_requests_per_s", "steady_output_tokens_per_s")
        if (rate := getattr(result, name)) is not None
    }
    return SharesRun(plan, replica, replace(result, **rates), "", None)


def _plan(traffic: Traffic, count: int) -> LoadPlan:
    """Return the means and the longest request of a traffic; what is run is drawn for each replica."""
    workload = Workload(Poisson(traffic.rate_per_s or 1.0), lengths_of(traffic), count)
    means = float(traffic.mean_input_tokens), float(traffic.mean_output_tokens)
    return LoadPlan(traffic, workload, *means, traffic.longest_request_tokens)


def _check(asked: ServeInput) -> None:
    """Refuse what is not simulated with shares.

    Raises: AdvisorError: so it is.
    """
    apart = {
        "--sessions": asked.load.sessions,
        "--long-prompts": asked.long_prompts,
        "--other-replicas": asked.other_replicas,
    }
    what = next((option for option, value in apart.items() if value is not None), "--router share")
    is_apart = what != "--router share"
    given = {
        "--long-prompts": what != "--long-prompts" and asked.long_prompts is not None,
        "--other-replicas": what != "--other-replicas" and asked.other_replicas is not None,
        "--prefill-workers": asked.pools.is_given,
        "--concurrency": asked.load.concurrency is not None and is_apart,
        "--length-dist": asked.load.length_dist is not None,
        "--router": asked.layout.router not in ("least_outstanding", "share"),
        "--step-by-step": asked.step_by_step,
        "--records": asked.records is not None,
        "--chrome-trace": asked.chrome_trace is not None,
        "--ttft": asked.ttft is not None,
        "--tpot": asked.tpot is not None,
    }
    for option, is_given in given.items():
        if is_given:
            raise AdvisorError(
                f"{option} and {what} exclude each other",
                why="each replica is run with a share of the requests of its own",
                fix=f"drop {option}; advisor simulate fleet has both"
                if option == "--router"
                else f"drop {option}",
            )


def _long_side(asked: ServeInput, text: str) -> tuple[int, ServeInput]:
    """Return the length from which a prompt is long [tokens], and the deployment for long prompts.

    Raises: AdvisorError: a part is not NAME=VALUE, or there is none of that name.
    """
    found = _parts(text, "--long-prompts")
    if found.get(_FROM, 0) < 2:
        raise AdvisorError(
            f"--long-prompts {text} does not say which prompts are long",
            fix=f"from=N of tokens: {_EXAMPLES['--long-prompts']}",
        )
    return found[_FROM], _differing(asked, found)


def _other_kinds(asked: ServeInput, text: str) -> list[tuple[float, ServeInput]]:
    """Return the share of the requests and the deployment of each further kind of replicas.

    Raises: AdvisorError: a part is not NAME=VALUE, there is none of that name, or the shares are no shares.
    """
    option = "--other-replicas"
    found = [_parts(each, option) for each in text.split(",")]
    shares = [each.get(_SHARE, 0.0) for each in found]
    if min(shares) <= 0.0 or sum(shares) >= 1.0:
        raise AdvisorError(
            f"{option} {text}: shares {', '.join(f'{share:g}' for share in shares)} of the requests",
            why="each kind needs a share above 0, and the first replicas get what the others leave of 1",
            fix=_EXAMPLES[option],
        )
    return [(share, _differing(asked, each)) for share, each in zip(shares, found, strict=True)]


def _parts(text: str, option: str) -> dict[str, Any]:
    """Return the parts NAME=VALUE of a kind of replicas.

    Raises: AdvisorError: one is malformed, or none is called so.
    """
    first, read_first = _FIRST[option]
    known = {first: read_first, **_READ}
    found: dict[str, Any] = {}
    for part in text.split(":"):
        name, equals, value = part.partition("=")
        if not equals or not value or name not in known:
            near = near_misses(name, known, {})
            raise AdvisorError(
                f"{option} {text}: {part!r} is none of its parts",
                why=f"parts are NAME=VALUE, of {', '.join(known)}",
                fix=f"{near[0]}=VALUE" if near and name not in known else _EXAMPLES[option],
            )
        try:
            found[name] = known[name](value)
        except ValueError:
            raise AdvisorError(f"{option} {text}: {part!r} is not a number", fix=_EXAMPLES[option]) from None
    if any(isinstance(value, int) and value < 1 for value in found.values() if value is not False):
        raise AdvisorError(f"{option} {text}: counts begin at 1", fix=_EXAMPLES[option])
    return found


def _differing(asked: ServeInput, found: Mapping[str, Any]) -> ServeInput:
    """Return the deployment with what its parts change."""
    layout, guessing, own = (
        {name.replace("-", "_"): found[name] for name in names if name in found}
        for names in (_LAYOUT, _GUESSING, _ITSELF)
    )
    if guessing.get("speculative") == "none":
        guessing = {}
        asked = replace(asked, guessing=Guessing())
    layout_of = replace(asked.layout, **layout)
    guessing_of = replace(asked.guessing, **guessing)
    return replace(asked, layout=layout_of, guessing=guessing_of, **own)

"""Router before replicas: it chooses the pool, then the replica in it."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.errors import AdvisorError
from advisor.simulator.serving.content import Contents
from advisor.simulator.serving.fleet import Balance, Fleet
from advisor.simulator.serving.loop import LoadIndex, Site

FULL: Literal["full"] = "full"
UNSERVABLE: Literal["unservable"] = "unservable"
Refusal = Literal["full", "unservable"]


class Router:
    """Router that takes the first pool of the fleet that accepts a request and is below its limit, then a replica by
    the rule.

    A pool above `spill_above` on its least loaded replica is passed over as long as another accepts; if all are,
    the pool with the least loaded replica counts. A replica at max_outstanding takes nothing; if no replica of any pool
    has room, the request is rejected.

    Assumes: routing takes no time; the router knows of completed outputs at once.
    """

    def __init__(
        self,
        fleet: Fleet,
        contents: Contents | None,
        *,
        tenants: Sequence[str] = ("all",),
        tenant_of: NDArray[np.int16] | None = None,
        sessions: Sequence[int] | None = None,
    ) -> None:
        self.pools = fleet.pools
        self.rule = fleet.router
        self.balance = fleet.balance
        self.limits = [pool.token_limits for pool in fleet.pools]
        self.loads = [LoadIndex() for _ in fleet.pools]
        self.sites: dict[int, Site] = {}
        self.num_routed = [0] * len(fleet.pools)
        self.tenants = tenants
        self.tenant_of = tenant_of
        self.sessions = sessions
        self.session_homes: dict[tuple[int, int], int] = {}
        self.simple = len(fleet.pools) == 1 and fleet.pools[0].max_outstanding is None
        if self.rule == "session_affinity" and sessions is None:
            raise AdvisorError(
                "session affinity needs sessions",
                why="the requests of this load do not belong to any",
                fix="router = 'prefix_affinity' or 'least_outstanding'",
            )
        if self.rule == "prefix_affinity" and contents is None:
            raise AdvisorError(
                "prefix affinity needs prompts that begin alike",
                why="the load does not say what its prompts have in common",
                fix="shared prefixes, sessions, a trace with hash_ids, or the router least_outstanding",
            )
        tree = (contents or Contents.empty()).tree
        self.prompts = contents.prompts if contents else ()
        self.prefix_homes = [PrefixHomes(tree.parents, tree.ends) for _ in fleet.pools]

    def join(self, site: Site, pool_number: int = 0) -> None:
        """Let a replica take requests."""
        site.load_index = self.loads[pool_number]
        site.load_index.join(site.number)
        self.sites[site.number] = site

    def leave(self, site: Site) -> None:
        """Send a replica no further requests."""
        site.load_index.leave(site.number)
        del self.sites[site.number]

    def choose(self, index: int, input_tokens: int, output_tokens: int) -> Site | Refusal | None:
        """Return the replica for a request; None if no pool that accepts it has a replica in service now."""
        pool_number = self._pool(index, input_tokens, output_tokens)
        if not isinstance(pool_number, int):
            return pool_number
        loads = self.loads[pool_number]
        number = self._replica(pool_number, loads, index, input_tokens)
        most = self.pools[pool_number].max_outstanding
        if most is not None and loads.loads[number] >= most:
            number = loads.least_loaded()
        self.num_routed[pool_number] += 1
        return self.sites[number]

    def _pool(self, index: int, input_tokens: int, output_tokens: int) -> int | Refusal | None:
        """Return the number of the pool for a request, or the reason of its refusal."""
        tenant = self.tenants[0 if self.tenant_of is None else self.tenant_of[index]]
        fallback: tuple[int, int] | None = None
        found: Refusal | None = UNSERVABLE
        for number, pool in enumerate(self.pools):
            least_prompt, most_prompt, most_tokens = self.limits[number]
            if not least_prompt <= input_tokens <= most_prompt or input_tokens + output_tokens > most_tokens:
                continue
            if pool.tenants and tenant not in pool.tenants:
                continue
            loads = self.loads[number]
            if not loads.members:
                found = None if found == UNSERVABLE else found
                continue
            if self.simple:
                return number
            least = loads.least_load()
            if pool.max_outstanding is not None and least >= pool.max_outstanding:
                found = FULL
                continue
            if pool.spill_above is None or least < pool.spill_above:
                return number
            if fallback is None or least < fallback[0]:
                fallback = least, number
        return found if fallback is None else fallback[1]

    def _replica(self, pool_number: int, loads: LoadIndex, index: int, input_tokens: int) -> int:
        """Return the number of the replica within the pool."""
        if self.rule == "least_outstanding":
            return loads.least_loaded()
        if self.rule == "round_robin":
            return loads.members[self.num_routed[pool_number] % len(loads.members)]
        if self.rule == "session_affinity":
            assert self.sessions is not None
            key = pool_number, self.sessions[index]
            home = self.session_homes.get(key)
            if home is None or home not in loads.loads:
                home = self.session_homes[key] = loads.least_loaded()
            return home
        homes = self.prefix_homes[pool_number]
        node = self.prompts[index]
        known = homes.find(node, input_tokens, self.balance.least_matched_fraction, loads.loads)
        number = unless_overloaded(known, loads.loads, loads.least_loaded(), self.balance)
        homes.remember(node, number)
        return number


def unless_overloaded(home: int | None, loads: Mapping[int, int], least_loaded: int, balance: Balance) -> int:
    """Return the replica `home` that has a request's prefix, or the least loaded one if there is none or it is
    overloaded.

    Source: own formulation; SGLang's router.
    """
    if home is None or home not in loads:
        return least_loaded
    own = loads[home]
    least = loads[least_loaded]
    if own - least > balance.most_requests_above and own > balance.most_ratio_above * least:
        return least_loaded
    return home


class PrefixHomes:
    """Index of the replica that last computed each content node: the router's memory of the prompts that it has seen.

    Assumes: the router is not told of evictions.
    Source: own formulation; SGLang's router keeps a radix tree of what it sent to each worker.
    """

    __slots__ = ("ends", "homes", "parents")

    def __init__(self, parents: Sequence[int], ends: Sequence[int]) -> None:
        self.parents = parents
        self.ends = ends
        self.homes: dict[int, int] = {}

    def find(
        self, node: int, input_tokens: int, least_fraction: float, members: Mapping[int, int]
    ) -> int | None:
        """Return the replica with the longest known prefix of a prompt, or None if the prefix is too short."""
        homes = self.homes
        parents = self.parents
        least = least_fraction * input_tokens
        while node and self.ends[node] >= least:
            home = homes.get(node)
            if home is not None and home in members:
                return home
            node = parents[node]
        return None

    def remember(self, node: int, replica: int) -> None:
        """Note that a replica computes a node's content."""
        homes = self.homes
        parents = self.parents
        while node and homes.get(node) != replica:
            homes[node] = replica
            node = parents[node]

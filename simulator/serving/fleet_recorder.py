"""Fleet records: the outcome of requests by pool and tenant, and over time."""

from collections.abc import Iterable

import numpy as np

from advisor.simulator.serving.fleet import Fleet
from advisor.simulator.serving.load import FleetLoad
from advisor.simulator.serving.metrics import (
    END,
    FIRST,
    INDEX,
    NUM_FIELDS,
    OUTPUT,
    VISIBLE,
    IntColumn,
    Recorder,
)


class Timeline:
    """Counts per interval of time.

    Beyond the highest number of intervals, each two become one. The counts do not depend on the order of events.
    """

    COLUMNS = ("arrived", "finished", "good", "turned_away", "output_tokens", "ttft_ps")

    def __init__(self, interval_ps: int, most: int) -> None:
        self.interval_ps = interval_ps
        self.most = most
        self.sums = np.zeros((len(self.COLUMNS), 64), dtype=np.int64)

    def add(self, name: str, instants: IntColumn, weights: IntColumn | None = None) -> None:
        """Count instants, or add weights at instants."""
        if not instants.size:
            return
        last_ps = int(instants.max())
        while last_ps // self.interval_ps >= self.most:
            self._coarsen()
        while last_ps // self.interval_ps >= self.sums.shape[1]:
            self.sums = np.concatenate([self.sums, np.zeros_like(self.sums)], axis=1)
        bins = instants // self.interval_ps
        row = self.sums[self.COLUMNS.index(name)]
        if weights is None:
            row += np.bincount(bins, minlength=len(row))
        else:
            np.add.at(row, bins, weights)

    def merge(self, other: "Timeline") -> None:
        """Add the counts of another timeline."""
        while self.interval_ps < other.interval_ps:
            self._coarsen()
        while other.interval_ps < self.interval_ps:
            other._coarsen()
        width = max(self.sums.shape[1], other.sums.shape[1])
        self.sums, more = (
            np.pad(sums, ((0, 0), (0, width - sums.shape[1]))) for sums in (self.sums, other.sums)
        )
        self.sums += more

    def _coarsen(self) -> None:
        """Join each two intervals into one."""
        halved = self.sums[:, 0::2] + self.sums[:, 1::2]
        self.sums = np.pad(halved, ((0, 0), (0, halved.shape[1])))
        self.interval_ps *= 2


class FleetRecorder:
    """Recorder of what the replicas of all pools report."""

    def __init__(self, fleet: Fleet, load: FleetLoad, timeline: Timeline, *, keep: bool) -> None:
        self.lists: list[tuple[list[int], list[int]]] = [([], []) for _ in fleet.pools]
        """Finished requests of each pool's replicas that are not yet taken in, and their token gaps, which are not
        used."""
        self.recorders = [
            [
                Recorder(api_overhead_ps=pool.policy.api_overhead_ps, slo=tenant.slo, keep=keep)
                for tenant in load.tenants
            ]
            for pool in fleet.pools
        ]
        """Recorders by pool, one for each tenant."""
        self.num_turned_away = [0] * len(load.tenants)
        self.sum_turned_away_ps = 0
        """Time in the system of requests that were turned away after a wait [ps]."""
        self.tenant_of = load.tenant_of
        self.timeline = timeline
        self.arrived_at: dict[int, int] = {}
        """Arrival instants of requests that were handed to a replica after a wait [ps]."""

    def take_finished(self, pool_number: int) -> None:
        """Take in a pool's finished requests, and empty its lists."""
        flat, gaps = self.lists[pool_number]
        gaps.clear()
        if not flat:
            return
        rows = np.array(flat, dtype=np.int64).reshape(-1, NUM_FIELDS)
        flat.clear()
        recorders = self.recorders[pool_number]
        if self.arrived_at:
            for place, index in enumerate(rows[:, INDEX].tolist()):
                if index in self.arrived_at:
                    rows[place, VISIBLE] = self.arrived_at.pop(index) + recorders[0].api_overhead_ps
        if self.tenant_of is None:
            self._take(recorders[0], rows)
            return
        tenant = self.tenant_of[rows[:, INDEX]]
        for number, recorder in enumerate(recorders):
            own = rows[tenant == number]
            if len(own):
                self._take(recorder, own)

    def _take(self, recorder: Recorder, rows: IntColumn) -> None:
        good = recorder.take_rows(rows)
        arrived = rows[:, VISIBLE]
        end = rows[:, END]
        timeline = self.timeline
        timeline.add("arrived", arrived)
        timeline.add("ttft_ps", arrived, rows[:, FIRST] - arrived)
        timeline.add("finished", end)
        timeline.add("good", end[good])
        timeline.add("output_tokens", end, rows[:, OUTPUT])

    def turned_away(self, index: int, arrived_ps: int, now_ps: int) -> None:
        """Count a request that was rejected or could never be served."""
        self.sum_turned_away_ps += now_ps - arrived_ps
        self.num_turned_away[0 if self.tenant_of is None else int(self.tenant_of[index])] += 1
        instant = np.array([arrived_ps], dtype=np.int64)
        self.timeline.add("arrived", instant)
        self.timeline.add("turned_away", instant)

    def close(self) -> None:
        """Take in the finished requests that are left."""
        for number in range(len(self.lists)):
            self.take_finished(number)

    def merge(self, other: "FleetRecorder") -> None:
        """Take in another recorder of the same fleet and load, with different requests."""
        for own, more in zip(self.recorders, other.recorders, strict=True):
            for mine, theirs in zip(own, more, strict=True):
                mine.merge(theirs)
        self.timeline.merge(other.timeline)

    def of_pool(self, number: int) -> Recorder:
        """Return what one pool did for all tenants."""
        return _together(self.recorders[number])

    def of_tenant(self, number: int) -> Recorder:
        """Return what all pools did for one tenant."""
        return _together(own[number] for own in self.recorders)

    def of_all(self) -> Recorder:
        """Return what all pools did for all tenants."""
        return _together(recorder for own in self.recorders for recorder in own)


def _together(recorders: Iterable[Recorder]) -> Recorder:
    first, *others = recorders
    if not others:
        return first
    whole = Recorder(api_overhead_ps=0, slo=None, keep=first.parts is not None)
    for recorder in (first, *others):
        whole.merge(recorder)
    return whole

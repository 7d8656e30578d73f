"""Charts of a fleet over the time of its load: requests, replicas, time to first token."""

from collections.abc import Callable, Sequence

from advisor.catalog.units import HOUR_S, MILLISECOND_S
from advisor.render.answer import Axis, Chart, Datum, Series
from advisor.simulator.serving.fleet_result import TimelineRow


def fleet_charts(timeline: Sequence[TimelineRow]) -> tuple[Chart, ...]:
    """Return the charts of a timeline; none for one of a single interval."""
    if len(timeline) < 2:
        return ()
    return (
        _chart(
            timeline,
            "Requests over time",
            "requests/s",
            {"arrived": lambda row: row.arrived_per_s, "within the objectives": lambda row: row.good_per_s},
            "Requests that arrive, and those that finish within the objectives of their tenant",
        ),
        _chart(
            timeline,
            "Replicas over time",
            "replicas",
            {"serving": lambda row: row.num_ready, "paid": lambda row: row.num_paid},
            "Replicas that serve, and those that are paid: starting and draining ones cost too",
        ),
        _chart(
            timeline,
            "Time to first token over time",
            "ms",
            {"mean TTFT": lambda row: None if row.mean_ttft_s is None else row.mean_ttft_s / MILLISECOND_S},
            "Mean time to first token of the requests that arrive in an interval",
        ),
    )


def _chart(
    timeline: Sequence[TimelineRow],
    title: str,
    unit: str,
    values: dict[str, Callable[[TimelineRow], float | None]],
    about: str,
) -> Chart:
    series = [
        Series(
            name,
            tuple(
                Datum(row.from_s / HOUR_S, value) for row in timeline if (value := value_of(row)) is not None
            ),
        )
        for name, value_of in values.items()
    ]
    return Chart("line", title, Axis("time", "h"), Axis(unit), tuple(series), about, is_in_terminal=False)

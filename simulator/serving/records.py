"""One flat record per finished request, as columns of integer picoseconds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.units import PICOSECONDS_PER_S

IntColumn = NDArray[np.int64]
NUM_FIELDS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Finished requests in order of arrival: instants [ps], lengths [tokens], preemptions.

    Source: own definition, after the data records of Ciw.
    """

    index: IntColumn
    arrived_ps: IntColumn
    admitted_ps: IntColumn
    first_token_ps: IntColumn
    finished_ps: IntColumn
    input_tokens: IntColumn
    output_tokens: IntColumn
    num_preemptions: IntColumn

    def __len__(self) -> int:
        return len(self.index)

    def equals(self, other: "Records") -> bool:
        """Whether every field of every record is the same."""
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in self.__slots__)

    def rows(self) -> Iterator[dict[str, float | int | None]]:
        """Flat dictionaries: instants `*_at_s`, durations `*_s`; tpot_s is None for a single output token."""
        columns = [getattr(self, name).tolist() for name in self.__slots__]
        for index, arrived, admitted, first, finished, inputs, outputs, preemptions in zip(
            *columns, strict=True
        ):
            yield {
                "request": index,
                "arrived_at_s": arrived / PICOSECONDS_PER_S,
                "admitted_at_s": admitted / PICOSECONDS_PER_S,
                "first_token_at_s": first / PICOSECONDS_PER_S,
                "finished_at_s": finished / PICOSECONDS_PER_S,
                "queueing_s": (admitted - arrived) / PICOSECONDS_PER_S,
                "ttft_s": (first - arrived) / PICOSECONDS_PER_S,
                "tpot_s": (finished - first) / (outputs - 1) / PICOSECONDS_PER_S if outputs > 1 else None,
                "e2e_s": (finished - arrived) / PICOSECONDS_PER_S,
                "input_tokens": inputs,
                "output_tokens": outputs,
                "num_preemptions": preemptions,
            }


def records_of(parts: Sequence[NDArray[np.int64]]) -> Records:
    """Records from blocks of rows as the recorder keeps them, ordered by request.

    Source: own definition.
    """
    table = np.concatenate(parts) if parts else np.empty((0, NUM_FIELDS), dtype=np.int64)
    table = table[np.argsort(table[:, 1], kind="stable")]
    arrived, index, inputs, outputs, admitted, first_token, finished, preemptions = table.T.copy()
    return Records(index, arrived, admitted, first_token, finished, inputs, outputs, preemptions)

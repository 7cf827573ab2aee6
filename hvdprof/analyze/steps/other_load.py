"""Whether the load of other processes can explain a loss, by its size.

Tested in ``tests/analyze/steps/test_other_load.py``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof.analyze.steps.disturbed_turns import NEGLIGIBLE_CORES, counted_turns
from hvdprof.analyze.steps.host_conditions import BUSY_CORES
from hvdprof.model.launch_key import LAUNCH
from hvdprof.model.run import Run

LEAST_EXPLAINED = 0.5
"""The part of a loss that the load must be able to explain to be its cause.

What explains less leaves the larger part to another cause, and so does the fix that ends it. The
whole loss is not asked for: a rank that lost its core waits for the next slice as well, and
finds its caches cold, so that a loss can exceed the time that was taken.
"""


@dataclass(frozen=True, slots=True)
class OtherLoad:
    """Load of other processes on the launching host, in the launches of a cell.

    A launch counts as busy where they used more than ``BUSY_CORES``, and more than the ranks left
    free. What they took from the ranks is what they used beyond these free cores, and beyond
    ``NEGLIGIBLE_CORES``, which the launching side and the system use on an idle host, too.

    Attributes:
        num_cores: Cores of the host; 0 where unknown, and then no launch is busy.
        num_launches: Launches of the cell whose load is known.
        num_busy: Those of them that are busy.
        most_cores: Most cores that others used in a busy launch; 0 without one.
        taken_cores: Cores that they took from the ranks, mean over these launches.
    """

    num_cores: int
    num_launches: int
    num_busy: int = 0
    most_cores: float = 0.0
    taken_cores: float = 0.0

    @property
    def text(self) -> str:
        """``other processes kept up to 1.7 of 2 cores busy in 1 of 3 launches``, or empty."""
        if not self.num_busy:
            return ""
        of_all = f" in {self.num_busy} of {self.num_launches} launches"
        return (
            f"other processes kept up to {self.most_cores:.1f} of {self.num_cores} cores busy"
            f"{of_all if self.num_busy < self.num_launches else ''}"
        )

    def can_cost(self, share: float, num_ranks: int) -> bool:
        """Whether it can explain ``LEAST_EXPLAINED`` of a loss.

        In launches of T seconds others took ``taken_cores * T`` seconds of processor time from the
        ranks; the loss is ``share * T`` on each of its ranks.

        Args:
            share: The loss divided by the step time, mean over launches.
            num_ranks: The ranks that have it.
        """
        return 0 < LEAST_EXPLAINED * share * num_ranks <= self.taken_cores


def other_load(run: Run, launches: pd.DataFrame, threads: int, num_cores: int) -> OtherLoad:
    """The load in some launches, of launches in turns in the turns that count.

    Args:
        run: Any run.
        launches: Rows of SEGMENTS.
        threads: Threads of the ranks on the launching host, in one launch.
        num_cores: Cores of that host; 0 where unknown.
    """
    spare = max(num_cores - threads, 0)
    loads = np.array(list(_loads(run, launches)))
    if not len(loads):
        return OtherLoad(num_cores, 0)
    is_busy = (loads > max(BUSY_CORES, spare)) & (num_cores > 0)
    taken = np.where(is_busy, loads - max(NEGLIGIBLE_CORES, spare), 0.0)
    return OtherLoad(
        num_cores=num_cores,
        num_launches=len(loads),
        num_busy=int(is_busy.sum()),
        most_cores=float(loads[is_busy].max(initial=0.0)),
        taken_cores=float(taken.mean()),
    )


def _loads(run: Run, launches: pd.DataFrame) -> Iterator[float]:
    """Cores that others used in each launch; nothing of one where that is unknown."""
    of_passes = {record.id: record.other_cpu_cores for record in run.manifest.passes}
    turns = counted_turns(run)
    known = turns[turns["other_cores"].notna() & (turns["num_steps"] > 0)]
    in_turns = {
        key: float(np.average(own["other_cores"], weights=own["num_steps"]))
        for key, own in known.astype(dict.fromkeys(LAUNCH, str)).groupby(LAUNCH)
    }
    for key in launches[LAUNCH].astype(str).itertuples(index=False, name=None):
        load = in_turns.get(key, of_passes.get(key[0]))
        if load is not None:
            yield load

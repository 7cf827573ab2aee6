"""What happened in a launch: significant delays of ranks, grouped by pattern and phase."""

import numpy as np

from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.replay import costs_of_ranks
from hvdprof.analyze.steps.step_work import StepWork
from hvdprof.analyze.stragglers.named_cause import IRREGULAR, PERSISTENT, STRAGGLER, NamedCause
from hvdprof.analyze.stragglers.stragglers import (
    SMALLEST_SHARE,
    lateness,
    stragglers,
    windows,
)
from hvdprof.model.arrays import Bools


def named_causes(work: StepWork) -> tuple[NamedCause, ...]:
    """The significant delays of a launch, largest first; they never overlap in ``affected``.

    Empty where nothing is significant, and for launches of one rank.
    """
    if len(work.ranks) < 2:
        return ()
    rows = stragglers(work, costs_of_ranks(work), ("", ""))
    named = rows[rows["phase"] != ""]
    late = lateness(windows(work).length)
    is_late: Bools = np.zeros(work.before.shape, dtype=bool)
    is_late[work.follows] = late >= SMALLEST_SHARE * work.step_times.mean()
    found = []
    for (pattern, phase), alike in named.groupby(["pattern", "phase"], sort=False):
        ranks = np.sort(alike["rank"].to_numpy())
        affected = np.zeros_like(is_late)
        places = np.searchsorted(work.ranks, ranks)
        affected[:, places] = is_late[:, places]
        any_rank: Bools = np.asarray(affected.any(axis=1))
        begins = any_rank & ~np.concatenate([[False], any_rank[:-1]])
        is_persistent = pattern == PERSISTENT
        cause = NamedCause(
            kind=STRAGGLER,
            ranks=tuple(int(rank) for rank in ranks),
            phase=str(phase),
            phase_share=float(alike["phase_share"].mean()),
            pattern=PERSISTENT if is_persistent else IRREGULAR,
            period_steps=NAN,
            num_events=int((any_rank if is_persistent else begins).sum()),
            first_step=int(work.steps[any_rank.argmax()]),
            affected=affected,
        )
        found.append((float(alike["cost_together_ns"].max()), cause))
    return tuple(cause for _, cause in sorted(found, key=lambda pair: -pair[0]))

"""Rank 0 of launches with the timeline on: its writer takes a core, and is no straggler."""

import pandas as pd

from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.model.launch_key import LAUNCH, Mode
from hvdprof.model.tables.waiting_tables import STRAGGLER_PATTERNS, STRAGGLERS, TIMELINE_WRITER
from hvdprof.rundir.plan import HOROVOD_ENGINE

WRITER_RANK = 0
"""Only rank 0 writes Horovod's timeline."""

_PERIODIC = "periodic"
"""The writer never rests, so it delays no step out of k."""

_CELL = ["model", "size", "engine", "compression", "reduction"]


def without_timeline_writer(stragglers: pd.DataFrame, segments: pd.DataFrame) -> pd.DataFrame:
    """STRAGGLERS in which rank 0 of a trace launch has the pattern ``timeline-writer``.

    It stays a straggler where a launch of the same cell without the timeline names it too, and
    where it is late in every k-th step.

    Args:
        stragglers: STRAGGLERS of all launches.
        segments: SEGMENTS.
    """
    own = stragglers.reset_index(drop=True)
    named = own[(own["rank"] == WRITER_RANK) & own["pattern"].isin(STRAGGLER_PATTERNS)]
    if named.empty:
        return stragglers
    names = dict.fromkeys([*LAUNCH, "mode", *_CELL], str)
    of_cells = segments[list(names)].astype(names).set_index(LAUNCH)
    named = named.astype(dict.fromkeys(LAUNCH, str)).join(of_cells, on=LAUNCH)
    known = set(named.loc[named["mode"] != Mode.TRACE, _CELL].itertuples(index=False, name=None))
    is_traced = (named["mode"] == Mode.TRACE) & (named["engine"] == HOROVOD_ENGINE)
    traced = named[is_traced & (named["pattern"] != _PERIODIC)]
    cells = traced[_CELL].itertuples(index=False, name=None)
    rows = [row for row, cell in zip(traced.index, cells, strict=True) if cell not in known]
    if not rows:
        return stragglers
    own.loc[rows, "pattern"] = TIMELINE_WRITER
    own.loc[rows, "phase"] = ""
    own.loc[rows, "phase_share"] = NAN
    return STRAGGLERS.frame(own)

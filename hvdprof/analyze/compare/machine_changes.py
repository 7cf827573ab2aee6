"""What the machine did otherwise to the ranks of a cell in one run than in the other.

Clocks of GPUs that differ beyond the margin forbid a comparison: they explain a change before the
code does. Ranks without a core are a caveat alone, since their own threads can be the reason.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.analyze.compare.outcomes import (
    chance_of_at_most,
    change_interval,
    is_known,
    negative,
)
from hvdprof.analyze.stats.uncertainty import Spread, less, spread
from hvdprof.model.launch_key import LaunchKey, rows_by_launch
from hvdprof.model.results.comparison import Rules
from hvdprof.rundir.recording.sample_format import CORE_WAIT, SM_CLOCK

LEAST_WAIT = 0.05
"""The least difference of the share of the time without a core that is said."""


def machine_of_launches(
    rank_machine: pd.DataFrame, launches: Iterable[LaunchKey]
) -> dict[str, Spread]:
    """The mean over ranks of what is compared, over launches; of clocks the logarithm.

    Args:
        rank_machine: RANK_MACHINE of a run.
        launches: The launches of one cell; those without samples are left out.
    """
    found: dict[str, Spread] = {}
    rows = dict(rows_by_launch(rank_machine))
    names, means = rank_machine["measure"].astype(str).to_numpy(), rank_machine["mean"].to_numpy()
    for measure in (SM_CLOCK, CORE_WAIT):
        own = [rows[key][names[rows[key]] == measure] for key in launches if key in rows]
        values = [float(means[places].mean()) for places in own if len(places)]
        if values:
            found[measure] = spread([*np.log(values)] if measure == SM_CLOCK else values)
    return found


def clock_reason(first: Mapping[str, Spread], second: Mapping[str, Spread], rules: Rules) -> str:
    """Why GPU clocks forbid the comparison of a cell; empty where they do not.

    Launches of both that were interleaved met the same machine: there clocks follow the code.

    Args:
        first: What the machine did to the cell of the first run.
        second: The same of the second run.
        rules: The rules of the comparison.
    """
    change = _change(first, second, SM_CLOCK)
    if rules.is_paired or change is None or not _is_beyond(change, rules.margin, rules.level):
        return ""
    ends = change_interval(change, rules.level)
    change_, low, high = (float(np.expm1(end)) for end in (ends.value, ends.low, ends.high))
    size = units.percent_interval(change_, low, high)
    if change_ < 0:
        size = units.percent_interval(-change_, -high, -low)
    than = "lower" if change_ < 0 else "higher"
    return f"GPU clocks (SM) {size} {than} in the second run"


def core_caveats(
    pairs: Iterable[tuple[str, Mapping[str, Spread], Mapping[str, Spread]]],
    names: tuple[str, str],
    rules: Rules,
) -> Iterator[str]:
    """Sentences on cells whose ranks had a core less often in one run than in the other.

    Args:
        pairs: The name of each cell, and what the machine did to it in both runs.
        names: Of both runs.
        rules: The rules of the comparison; none of launches that were interleaved.
    """
    for cell, first, second in () if rules.is_paired else pairs:
        change = _change(first, second, CORE_WAIT)
        if change is None or not _is_beyond(change, LEAST_WAIT, rules.level):
            continue
        texts = []
        for name, of in zip(names, (first, second), strict=True):
            ends = change_interval(of[CORE_WAIT], rules.level)
            texts.append(f"{units.percent_interval(ends.value, ends.low, ends.high)} in {name}")
        yield (
            f"{cell}: of the time in which ranks could run they had no core for "
            f"{' and '.join(texts)}: what shares their cores explains a change before the code."
        )


def _change(
    first: Mapping[str, Spread], second: Mapping[str, Spread], measure: str
) -> Spread | None:
    if measure not in first or measure not in second:
        return None
    change = less(second[measure], first[measure])
    return change if is_known(change) else None


def _is_beyond(change: Spread, limit: float, level: float) -> bool:
    """Whether a change is beyond a limit, above or below, and not by chance."""
    return min(chance_of_at_most(one, limit) for one in (change, negative(change))) <= level

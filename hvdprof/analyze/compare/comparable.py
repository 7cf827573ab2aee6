"""Whether two runs, and two cells, may be compared.

Tested in ``tests/analyze/compare/test_comparison.py``.
"""

from collections.abc import Iterator

import pandas as pd

from hvdprof.analyze.compare.sides import SideCell
from hvdprof.rundir.manifest import Manifest, PassRecord

OTHER_LOAD_CORES = 0.5
"""Cores that other processes kept busy more during one run than during the other."""


def run_reasons(
    first: Manifest, second: Manifest, diffs: pd.DataFrame, *, is_paired: bool = False
) -> list[str]:
    """Why two runs are not comparable; empty where they are.

    Args:
        first: The manifest of the first run.
        second: The manifest of the second run.
        diffs: SETTING_DIFFS of both.
        is_paired: Whether their launches were interleaved: other load then falls on both.
    """
    named = [
        f"{row['place']}: {row['name']} {row['first'] or 'unset'} and {row['second'] or 'unset'}"
        for row in diffs[diffs["matters"]].to_dict("records")
    ]
    return named if is_paired else [*named, *_other_load(first, second)]


def cell_reason(first: SideCell, second: SideCell) -> str:
    """Why a cell of two runs is not comparable; empty where it is."""
    names = [name for name in first.conditions if name in second.conditions]
    differing = [
        f"{name} {_shown(first.conditions[name])} and {_shown(second.conditions[name])}"
        for name in names
        if first.conditions[name] != second.conditions[name]
    ]
    return "; ".join(differing)


def _shown(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _other_load(first: Manifest, second: Manifest) -> Iterator[str]:
    loads = [_mean_load(manifest.passes) for manifest in (first, second)]
    known = [load for load in loads if load is not None]
    if len(known) == 2 and abs(known[1] - known[0]) > OTHER_LOAD_CORES:
        yield f"other load: other processes kept {known[0]:.1f} and {known[1]:.1f} cores busy"


def _mean_load(passes: list[PassRecord]) -> float | None:
    known = [record.other_cpu_cores for record in passes if record.other_cpu_cores is not None]
    return sum(known) / len(known) if known else None

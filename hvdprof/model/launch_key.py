"""What names a launch in every table, and which launches ran far enough to have a result."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.model.schema import as_text
from hvdprof.rundir.manifest import Mode as Mode
from hvdprof.rundir.manifest import Status

LAUNCH = ["pass_id", "segment"]
"""The columns that name a launch."""

LaunchKey = tuple[str, str]
"""Their values: folder of the pass, id of the segment."""


def finished_launches(segments: pd.DataFrame) -> list[LaunchKey]:
    """The segments that ran to their end, or far enough to have a result."""
    done = segments.loc[is_finished(segments), LAUNCH]
    return list(as_text(done, LAUNCH).itertuples(index=False, name=None))


def is_finished(segments: pd.DataFrame) -> NDArray[np.bool_]:
    """Mask of the rows of SEGMENTS that ran to their end, or far enough to have a result."""
    far_enough = [Status.DONE, Status.PARTIAL, Status.RUNNING]
    return segments["status"].isin(far_enough).to_numpy(dtype=bool)


def rows_by_launch(table: pd.DataFrame) -> Iterator[tuple[LaunchKey, NDArray[np.intp]]]:
    """The positions of the rows of each launch in a table with the columns of ``LAUNCH``."""
    passes, segments = (pd.Categorical(table[name]) for name in LAUNCH)
    codes = passes.codes.astype(np.int64) * len(segments.categories) + segments.codes
    is_named = (passes.codes >= 0) & (segments.codes >= 0)
    rows = np.flatnonzero(is_named)
    rows = rows[np.argsort(codes[rows], kind="stable")]
    borders = np.flatnonzero(np.diff(codes[rows])) + 1
    launches = [own for own in np.split(rows, borders) if len(own)]
    for own in sorted(launches, key=lambda own: int(own[0])):
        pass_id, segment = passes[own[0]], segments[own[0]]
        yield (str(pass_id), str(segment)), own

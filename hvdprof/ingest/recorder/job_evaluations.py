"""Evaluations of the whole job, which no step time may contain.

A rank that evaluates alone delays the others, and its step counts. Where all ranks evaluate, the
step begins after it and is warm-up: caches and queues are cold. A rank does not know what the
others do, so this is decided where all recordings of a pass are read.
"""

from collections.abc import Collection
from functools import reduce

import numpy as np

from hvdprof.ingest.recorder.recorder_file import RecorderFile


def exclude_evaluations(files: Collection[RecorderFile]) -> None:
    """Let the steps in which all ranks evaluate begin after it, as warm-up.

    Args:
        files: What each rank of a pass recorded; changed in place.
    """
    names = dict.fromkeys(name for file in files for name in file.segments)
    for name in names:
        recordings = [file.segments[name] for file in files if name in file.segments]
        steps = reduce(np.intersect1d, [one.evaluations() for one in recordings])
        if len(steps):
            for one in recordings:
                one.begin_after_evaluation(steps)

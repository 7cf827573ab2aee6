"""Evaluations of the whole job, and steps under a profiler, which no step time may contain.

A rank that evaluates alone delays the others, and its step counts. Where all ranks evaluate, the
step begins after it and is warm-up: caches and queues are cold. A rank does not know what the
others do, so this is decided where all recordings of a pass are read.
"""

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from hvdprof.ingest.recorder.recorder_file import RecorderFile, SegmentRecording


def exclude_evaluations(files: Collection[RecorderFile]) -> None:
    """Let the steps in which all ranks evaluate begin after it, as warm-up.

    The ranks that recorded a step decide: the recording of another one may be cut off before it.

    Args:
        files: What each rank of a pass recorded; changed in place.
    """
    names = dict.fromkeys(name for file in files for name in file.segments)
    for name in names:
        recordings = [file.segments[name] for file in files if name in file.segments]
        steps = _steps_all_evaluate(recordings)
        if len(steps):
            for recording in recordings:
                recording.begin_after_evaluation(steps)


def exclude_profiled(files: Collection[RecorderFile]) -> None:
    """Let steps, or windows of a light recording, be warm-up on all ranks where one is profiled.

    Args:
        files: What each rank of a pass recorded, before windows become steps; changed in place.
    """
    names = dict.fromkeys(name for file in files for name in file.segments)
    for name in names:
        recordings = [file.segments[name] for file in files if name in file.segments]
        profiled = {steps for recording in recordings for steps in recording.profiled}
        for recording in recordings if profiled else ():
            steps, windows = recording.step_table(), recording.windows.table()
            for first, last in profiled:
                steps[(steps[:, 0] >= first) & (steps[:, 0] <= last), 1] = 1
                is_hit = (windows["step"] <= last) & (windows["last_step"] >= first)
                windows["warmup"][is_hit] = 1


def _steps_all_evaluate(recordings: Sequence[SegmentRecording]) -> NDArray[np.int64]:
    evaluating = Counter(
        step for recording in recordings for step in set(recording.evaluations().tolist())
    )
    candidates = np.array(sorted(evaluating), dtype=np.int64)
    holding = np.zeros(len(candidates), dtype=np.int64)
    for recording in recordings:
        holding += np.isin(candidates, recording.step_table()[:, 0])
    counts = np.array([evaluating[step] for step in candidates.tolist()], dtype=np.int64)
    return np.asarray(candidates[counts == holding])

"""The lines of the files of sampled lines: ``lines-<rank>.jsonl``, and those of its workers.

Each process that is sampled writes one ``sampling`` line and then the others. The file of a worker
is taken over by the next one, which begins with a ``sampling`` line of its own.
"""

from collections.abc import Sequence
from typing import Annotated, Literal, TypedDict

from hvdprof.rundir.recording.window_line import Key

LINES_HZ = "HVDPROF_LINES"
"""Environment variable of the ranks: samples per second, 0 for none."""

USUAL_HZ, MOST_HZ = 20.0, 1000.0
"""Samples per second where nothing else is asked for, and the most."""

OTHER_PLACE = 0
"""Number of the place that stands for all rare ones of a window together."""

MAIN_PROCESS, WORKER_PROCESS = "main", "worker"
"""The kinds of processes that are sampled: the rank itself, and its workers for input."""

OUTSIDE_PHASES = "outside"
"""In place of a phase: between the phases of a step, or between steps."""

BLOCKED_PHASE = "blocked"
"""In place of a phase: the rank waits for other ranks."""

PhaseSums = tuple[str, int, int, int, int]
"""Phase, samples in it, its time (0 where unknown), sum of gaps before the samples, sum of delays,
ns."""

FETCH, COLLATE, PIN, RECEIVE, WAIT = STAGES = ("fetch", "collate", "pin", "receive", "wait")
"""Stages of torch's DataLoader, by the frames of a sample: samples are made, put together, copied
to pinned memory, taken over from a worker, or waited for; of a worker, it waits for work."""

Place = tuple[int, str, int, str, str, str]
"""Number of the place, file, line, function, innermost function where it is not the user's,
stage."""

PlaceCount = tuple[int, int, int]
"""Place of the phase in ``phases``, number of the place, samples."""


class SamplingLine(TypedDict):
    """The sampling of a process begins; only in files of sampled lines, as the next two."""

    kind: Literal["sampling"]
    rank: Annotated[int, Key("as `hvd.rank()`; of a worker that of its rank")]
    process: Annotated[str, Key("`main` or `worker`")]
    pid: Annotated[int, Key("process id")]
    hz: Annotated[float, Key("intended samples per second")]
    monotonic_ns: Annotated[int, Key("time of it", "ns")]


class SampledLine(TypedDict):
    """What the samples of a window of steps saw; of a worker those of a while."""

    kind: Literal["lines"]
    segment: Annotated[str, Key("id of the segment; empty for a worker")]
    step: Annotated[
        int, Key("number of the first step; -1 before and after steps, and for a worker")
    ]
    steps: Annotated[
        int,
        Key("steps of the window; 1 also for a step that took more than twice as long as usual"),
    ]
    start_ns: Annotated[int, Key("begin of the first step, or of the while", "ns")]
    end_ns: Annotated[int, Key("end of the last step, or of the while", "ns")]
    phases: Annotated[
        Sequence[PhaseSums],
        Key(
            "[phase, samples, time in it or 0 where unknown, sum of the gaps before the samples, "
            "sum of the times by which they came too late]; `outside` also holds the time since "
            "the step before",
            "ns",
        ),
    ]
    places: Annotated[
        Sequence[Place],
        Key(
            "places that no line before has: [number, file, line, function, innermost function "
            "where that is not the user's, stage of a DataLoader: `fetch`, `collate`, `pin`, "
            "`receive`, `wait`, or empty]; files of earlier versions have no stage"
        ),
    ]
    counts: Annotated[
        Sequence[PlaceCount],
        Key("[index of the phase in `phases`, number of the place, samples]; place 0 is all else"),
    ]


class CallLine(TypedDict):
    """A call whose name and times are exact."""

    kind: Literal["call"]
    name: Annotated[str, Key("such as `garbage collection`")]
    segment: Annotated[str, Key("id of the segment")]
    step: Annotated[int, Key("number of the step, -1 between steps")]
    start_ns: Annotated[int, Key("begin", "ns")]
    dur_ns: Annotated[int, Key("length; 0 where only a moment is known", "ns")]
    file: Annotated[str, Key("file of the user's line that called; empty where unknown")]
    line: Annotated[int, Key("its number; 0 where unknown")]
    detail: Annotated[str, Key("what it was about")]

"""The lines of light recordings and of sampled lines, and what keys of any line hold.

Each process that is sampled writes one ``sampling`` line and then the others. The file of a worker
is taken over by the next one, which begins with a ``sampling`` line of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NotRequired, TypedDict

LIGHT = "HVDPROF_LIGHT"
"""Environment variable of the ranks: 1 for a light recording."""

Spread = tuple[int, int, int, int]
"""Of the steps of a window: sum, median, 95th percentile and largest length, ns."""

WaitSum = tuple[str, int, int, int, int]
"""Of the waits of a kind in a window: kind, number, own time before them and length of all, ns,
ranks that all wait there (0 where unknown, or where that differs)."""

LongestStep = tuple[int, int, int, str, int]
"""Number of the longest step of a window, its length and its blocked time, ns (-1 where unknown),
the phase that was longer than usual by most, and the time in it, ns."""

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


@dataclass(frozen=True, slots=True)
class Key:
    """What a key holds; ``unit`` is empty for names, numbers and flags."""

    doc: str
    unit: str = ""


class WindowLine(TypedDict):
    """Consecutive steps of a light recording, summed up; their own lines are not written."""

    kind: Literal["window"]
    segment: Annotated[str, Key("id of the segment")]
    step: Annotated[int, Key("number of its first step in the segment")]
    last_step: Annotated[int, Key("number of its last step")]
    num_steps: Annotated[int, Key("recorded steps of the window: fewer where some were skipped")]
    warmup: Annotated[bool, Key("whether results exclude its steps; windows never mix both")]
    start_ns: Annotated[int, Key("begin of the first step", "ns")]
    end_ns: Annotated[int, Key("end of the last step", "ns")]
    wall_ns: Annotated[int, Key("the host's wall clock when the line was written", "ns")]
    samples: Annotated[int, Key("samples that this rank trained on in all its steps")]
    lengths: Annotated[
        Spread, Key("lengths of the steps: [sum, median, 95th percentile, largest]", "ns")
    ]
    parts: Annotated[
        Mapping[str, Spread],
        Key(
            "the same of `data`, `forward`, `backward`, `optimizer` and `blocked`, blocked time "
            "excluded from all others; a part that no step has is absent",
            "ns",
        ),
    ]
    waits: Annotated[
        Sequence[WaitSum] | None,
        Key(
            "per kind of wait, in the order of a step: [kind, number of waits, own time of the "
            "rank between the wait before and these, length of the waits, ranks that all wait for "
            "each other there or 0]; `null` where a wait may be unseen",
            "ns",
        ),
    ]
    after_ns: Annotated[int, Key("sum of the times from the last wait to the end of a step", "ns")]
    longest: Annotated[
        LongestStep,
        Key(
            "the longest step: [number, length, blocked time or -1, phase that took longer than "
            "usual by most, time in that phase]",
            "ns",
        ),
    ]
    evaluation_ns: Annotated[
        NotRequired[int],
        Key(
            "only in a window of one step in which the rank also evaluated: offset of the end "
            "of the evaluation",
            "ns",
        ),
    ]
    evaluation_blocked_ns: Annotated[
        NotRequired[int],
        Key(
            "only with `evaluation_ns`, where no wait may be unseen: waits in the evaluation", "ns"
        ),
    ]
    profiled: Annotated[
        NotRequired[bool],
        Key(
            "only where true: torch.profiler was on, or started or stopped; results exclude "
            "the steps of all ranks"
        ),
    ]
    loss: Annotated[
        NotRequired[float], Key("mean training loss, only where given; may be `NaN`, `Infinity`")
    ]


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

"""The line of a light recording, and what its keys and those of other lines hold."""

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
    evaluation_ns: NotRequired[
        Annotated[
            int,
            Key(
                "only in a window of one step in which the rank also evaluated: offset of the end "
                "of the evaluation",
                "ns",
            ),
        ]
    ]
    evaluation_blocked_ns: NotRequired[
        Annotated[
            int,
            Key(
                "only with `evaluation_ns`, where no wait may be unseen: waits in the evaluation",
                "ns",
            ),
        ]
    ]
    profiled: NotRequired[
        Annotated[
            bool,
            Key(
                "only where true: torch.profiler was on, or started or stopped; results exclude "
                "the steps of all ranks"
            ),
        ]
    ]
    loss: NotRequired[
        Annotated[float, Key("mean training loss, only where given; may be `NaN`, `Infinity`")]
    ]

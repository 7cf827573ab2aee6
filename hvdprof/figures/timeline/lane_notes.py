"""Segments of a pass on its time axis, and why lanes are empty in parts of them."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from hvdprof.figures.timeline.timeline_lanes import Lanes
from hvdprof.figures.timeline.timeline_rows import Row, RowKind

_WITHOUT = {
    "torch": "plain PyTorch without Horovod",
    "ddp": "DDP: no Horovod timeline",
}
# A gap that a reader can see.
_SMALLEST_SHARE = 0.01


def segment_spans(lanes: Lanes) -> list[dict[str, object]]:
    """Name, first and last time of each segment of the pass, in order of time."""
    steps = lanes.steps
    found = []
    for number, name in enumerate(steps.segments):
        own = steps.segment == number
        found.append(
            (
                int(steps.start_ns[own].min()) - lanes.origin_ns,
                int(steps.end_ns[own].max()) - lanes.origin_ns,
                name,
                int(steps.number[own].min()),
                int(steps.number[own].max()),
            )
        )
    return [
        {"from": first, "to": last, "name": name, "first_step": low, "last_step": high}
        for first, last, name, low, high in sorted(found)
    ]


def lane_notes(
    lanes: Lanes, rows: Sequence[Row], segments: pd.DataFrame
) -> list[dict[str, object]]:
    """Texts for the parts of the pass in which Horovod's lanes hold nothing.

    Each has ``from`` and ``to``, ns since the start of the pass, and the ``lane`` that it is
    written on, the first one below the ranks; -1 for a text about a pass without any such lane.

    Args:
        lanes: The lanes of a pass.
        rows: The rows that are shown.
        segments: The table of segments of the run.
    """
    of_pass = segments[(segments["pass_id"] == lanes.pass_id).to_numpy(bool)]
    below = [row.lane for row in rows if row.kind is RowKind.LANE and row.lane >= lanes.num_ranks]
    if len(lanes.names) == lanes.num_ranks:
        if of_pass.empty:
            return []
        mode = str(of_pass["mode"].iloc[0])
        text = f"No Horovod timeline in this pass ({mode}); trace passes hold one."
        return [{"from": 0, "to": lanes.length_ns, "lane": -1, "text": text}]
    if not below:
        return []
    engines = dict(zip(of_pass["segment"].astype(str), of_pass["engine"].astype(str), strict=True))
    steps = lanes.steps
    found: list[dict[str, object]] = []
    for number, name in enumerate(steps.segments):
        own = steps.segment == number
        first, last = int(steps.start_ns[own].min()), int(steps.end_ns[own].max())
        begin, end = (int(time) for time in lanes.written_ns[number])
        if begin < 0:
            why = _WITHOUT.get(engines.get(name, ""), "no Horovod timeline in this segment")
            gaps = [(first, last, why)]
        else:
            starts = (
                steps.number[own][np.searchsorted(steps.end_ns[own], begin)] if own.any() else 0
            )
            gaps = [
                (first, begin, f"recording starts in step {starts}"),
                (end, last, "recording ends before the segment"),
            ]
        found += [
            {
                "from": start - lanes.origin_ns,
                "to": stop - lanes.origin_ns,
                "lane": below[0],
                "text": text,
            }
            for start, stop, text in gaps
            if stop - start > _SMALLEST_SHARE * (last - first)
        ]
    return found

"""What stands beside an event: the same event and arrivals on other ranks, and sampled lines."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.figures.timeline.timeline_lanes import Lanes
from hvdprof.figures.timeline.viewport import Ints
from hvdprof.model.tables.line_tables import LINE_SAMPLES

_MOST_RANKS = 64
_MOST_ARRIVALS = 32
_MOST_LINES = 5
_MAIN = "main"


@dataclass(frozen=True, slots=True)
class RankEvent:
    """The same phase of the same step on one rank: total length, and start after the event's, ns.

    ``event`` is the row of its first interval in ``run.events``.
    """

    rank: int
    event: int
    dur_ns: int
    later_ns: int


def same_event(lanes: Lanes, event: pd.Series) -> tuple[RankEvent, ...]:
    """The same phase of the same step on each rank, the longest first; at most 64 ranks.

    Nothing for events of Horovod, which rank 0 alone writes, and where no other rank has it.
    """
    events = lanes.run.events
    if event["phase"] != "part":
        return ()
    places = np.flatnonzero((events["step"] == event["step"]).to_numpy(bool))
    for column in ("pass_id", "segment", "activity", "phase"):
        places = places[(events[column].iloc[places] == event[column]).to_numpy(bool)]
    rows = pd.DataFrame(
        {
            "place": places,
            "rank": events["rank"].to_numpy(np.int64)[places],
            "start": events["start_ns"].to_numpy(np.int64)[places],
            "dur": events["dur_ns"].to_numpy(np.int64)[places].clip(min=0),
        }
    ).sort_values("start", kind="stable")
    ranks = rows.groupby("rank").agg({"place": "first", "start": "min", "dur": "sum"})
    if len(ranks) < 2:
        return ()
    ranks = ranks.sort_values("dur", ascending=False, kind="stable").head(_MOST_RANKS)
    return tuple(
        RankEvent(int(rank), int(place), int(dur), int(start) - int(event["start_ns"]))
        for rank, place, start, dur in ranks.itertuples(name=None)
    )


def sampled_lines(lanes: Lanes, event: pd.Series) -> tuple[tuple[str, str], ...]:
    """Lines of code that were sampled in the phase and step of an event, by number of samples.

    Each as its place and its samples; where several steps were sampled together, those of all.
    """
    samples = lanes.run.table(LINE_SAMPLES.name)
    step = int(event["step"])
    if event["phase"] != "part" or samples.empty:
        return ()
    own = (samples["step"] <= step) & (step < samples["step"] + samples["steps"])
    for column in ("pass_id", "segment", "rank"):
        own &= samples[column] == event[column]
    own &= (samples["phase"] == event["activity"]) & (samples["process"] == _MAIN)
    found = samples[own.to_numpy(bool)].sort_values("samples", ascending=False, kind="stable")
    return tuple((_place(row), _number(row)) for row in found.head(_MOST_LINES).to_dict("records"))


def _place(row: dict[object, object]) -> str:
    where = f"{row['file']}:{row['line']}" if row["file"] else ""
    return " ".join(part for part in (where, str(row["function"]), str(row["leaf"])) if part)


def _number(row: dict[object, object]) -> str:
    first, steps = int(str(row["step"])), int(str(row["steps"]))
    text = units.counted(int(str(row["samples"])), "sample")
    return text if steps == 1 else f"{text} in steps {first} to {first + steps - 1}"


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Ranks by ready time, the last first: rank, and how long before the last one it was ready, ns.

    At most 32 of ``num_ranks``. ``first_ns`` and ``last_ns`` count from the start of the pass.
    ``source`` says what they were read from.
    """

    ranks: tuple[tuple[int, int], ...]
    num_ranks: int
    first_ns: int
    last_ns: int
    source: str


def event_arrivals(lanes: Lanes, event: pd.Series) -> Arrivals | None:
    """The arrivals for the tensor of an event in its step; ``None`` where none are recorded.

    From recorder files where there are some, else from the marks of Horovod's timeline, which notes
    on rank 0 when the request of each rank came in.
    """
    if not event["tensor"]:
        return None
    return _recorded_arrivals(lanes, event) or _marked_arrivals(lanes, event)


def _recorded_arrivals(lanes: Lanes, event: pd.Series) -> Arrivals | None:
    table = lanes.run.arrivals
    own = (table["step"] == event["step"]).to_numpy(bool)
    for column in ("tensor", "segment", "pass_id"):
        own = own & (table[column] == event[column]).to_numpy(bool)
    rows = table[own]
    return _arrivals(
        lanes,
        rows["rank"].to_numpy(np.int64),
        rows["ready_ns"].to_numpy(np.int64),
        "recorder files",
    )


def _marked_arrivals(lanes: Lanes, event: pd.Series) -> Arrivals | None:
    events = lanes.run.events
    own = (events["occurrence"] == event["occurrence"]).to_numpy(bool)
    for column in ("tensor", "pass_id", "segment"):
        own = own & (events[column] == event[column]).to_numpy(bool)
    own = own & (events["phase"] == "mark").to_numpy(bool)
    rows = events[own]
    rows = rows[rows["activity"].astype(str).str.fullmatch(r"\d{1,6}").to_numpy(bool)]
    return _arrivals(
        lanes,
        rows["activity"].astype(str).astype("int64").to_numpy(),
        rows["start_ns"].to_numpy(np.int64),
        "Horovod's timeline, by the clock of rank 0",
    )


def _arrivals(lanes: Lanes, ranks: Ints, ready_ns: Ints, source: str) -> Arrivals | None:
    if not len(ranks):
        return None
    order = np.argsort(ready_ns, kind="stable")[::-1]
    last = int(ready_ns[order[0]])
    return Arrivals(
        ranks=tuple(
            (int(ranks[place]), last - int(ready_ns[place])) for place in order[:_MOST_ARRIVALS]
        ),
        num_ranks=len(ranks),
        first_ns=int(ready_ns.min()) - lanes.origin_ns,
        last_ns=last - lanes.origin_ns,
        source=source,
    )

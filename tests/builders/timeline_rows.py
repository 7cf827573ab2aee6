"""The events of a timeline file one by one, to be read in a test."""

from dataclasses import dataclass

import pandas as pd

from hvdprof.ingest.timeline.horovod_timeline import TimelineFile


@dataclass(frozen=True)
class TimelineRow:
    phase: str
    activity: str
    collective: str
    tensor: str
    occurrence: int
    fusion_id: int
    start_us: int
    dur_us: int
    size_bytes: int | None
    rank: int


def rows_of(file: TimelineFile) -> list[TimelineRow]:
    rows = file.rows
    sizes = [None if pd.isna(size) else int(size) for size in rows.size_bytes]
    columns = (
        *(map(str, column) for column in (rows.phase, rows.activity, rows.collective, rows.tensor)),
        *(rows.occurrence.tolist(), rows.fusion_id.tolist()),
        *(rows.start_us.tolist(), rows.dur_us.tolist(), sizes, rows.rank.tolist()),
    )
    return [TimelineRow(*values) for values in zip(*columns, strict=True)]

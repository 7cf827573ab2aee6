"""The analysis of lone files: a page for each file, and tables made of all of them."""

from pathlib import Path
from typing import Any

import pandas as pd

from hvdprof.analyze.log_facts import BY_TABLE, NOT_IN_RECORDINGS, recording_facts
from hvdprof.analyze.nccl_call_join import join_calls_to_executions
from hvdprof.analyze.nccl_facts import nccl_facts
from hvdprof.analyze.nccl_findings import findings_of_jobs
from hvdprof.analyze.throughput_scaling import throughput_scaling
from hvdprof.analyze.timeline_facts import timeline_facts, timeline_unanswered
from hvdprof.model.finding_tables import FINDINGS
from hvdprof.model.found import Fact, FilePage, FoundAnalysis, Unanswered
from hvdprof.model.log_tables import FILES, THROUGHPUT, THROUGHPUT_SCALING
from hvdprof.model.nccl_call_tables import NCCL_JOINED_CALLS
from hvdprof.model.run import Run
from hvdprof.model.timeline_file_tables import TIMELINES

_RECORDER = "recorder file"


def analyze_files(run: Run) -> FoundAnalysis:
    """The finished analysis of a run that was put together from lone files."""
    files = run.table(FILES.name).to_dict("records")
    pages = [
        FilePage(
            file=str(row["file"]),
            kind=str(row["kind"]),
            size_bytes=int(row["size_bytes"]),
            facts=tuple(_facts(run, str(row["file"]))),
            unanswered=_unanswered(run, str(row["file"])),
        )
        for row in files
        if row["kind"] != _RECORDER
    ]
    pages += _recordings(run, [row for row in files if row["kind"] == _RECORDER])
    scaling = throughput_scaling(run.table(THROUGHPUT.name))
    derived = {
        THROUGHPUT_SCALING.name: scaling,
        FINDINGS.name: findings_of_jobs(run.nccl),
        NCCL_JOINED_CALLS.name: _joined_calls(run),
    }
    return FoundAnalysis(
        run, tuple(pages), scaling, {name: frame for name, frame in derived.items() if len(frame)}
    )


def _joined_calls(run: Run) -> pd.DataFrame:
    """NCCL's calls with the executions of the timeline, where one of each was given."""
    if len(run.nccl) != 1 or len(run.table(TIMELINES.name)) != 1 or run.nccl[0].calls.empty:
        return NCCL_JOINED_CALLS.empty()
    return join_calls_to_executions(run.nccl[0].calls, run.events).pairs


def _facts(run: Run, file: str) -> list[Fact]:
    facts: list[Fact] = []
    events = _timeline(run, file)
    if len(events):
        facts += timeline_facts(events, _told(run, file))
    for name, describe in BY_TABLE:
        frame = run.table(name)
        rows = frame[frame["file"] == file]
        if len(rows):
            facts += describe(rows)
    for recording in run.nccl:
        if (recording.line_kinds["file"] == file).any():
            facts += nccl_facts(recording)
    return facts


def _unanswered(run: Run, file: str) -> tuple[Unanswered, ...]:
    events = _timeline(run, file)
    return timeline_unanswered(_told(run, file)) if len(events) else ()


def _timeline(run: Run, file: str) -> pd.DataFrame:
    events = run.events
    return events[(events["source"] == "timeline") & (events["pass_id"] == file)]


def _told(run: Run, file: str) -> dict[str, Any]:
    timelines = run.table(TIMELINES.name)
    rows = timelines[timelines["pass_id"] == file].to_dict("records")
    return {str(name): value for name, value in rows[0].items()}


def _recordings(run: Run, files: list[dict[object, object]]) -> list[FilePage]:
    pages = []
    for launch in run.ranks["pass_id"].unique():
        steps = run.steps[run.steps["pass_id"] == launch]
        ranks = run.ranks[run.ranks["pass_id"] == launch]
        members = [row for row in files if str(Path(str(row["file"])).parent) == str(launch)]
        pages.append(
            FilePage(
                file=str(members[0]["file"]) if len(members) == 1 else str(launch),
                kind=f"{len(members)} recorder files" if len(members) != 1 else _RECORDER,
                size_bytes=sum(int(str(row["size_bytes"])) for row in members),
                facts=tuple(recording_facts(steps, ranks)),
                unanswered=(NOT_IN_RECORDINGS,),
            )
        )
    return pages

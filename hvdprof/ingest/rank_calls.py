"""Files of ranks without their run directory: recordings, and calls matched over the files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.file_entry import FileEntry
from hvdprof.ingest.kineto.collective_calls import collective_of
from hvdprof.ingest.recognise import Kind, Recognised
from hvdprof.ingest.tables.collective_matching import with_matches
from hvdprof.ingest.tables.run_builder import RunBuilder, below_each_other
from hvdprof.model.notes import NoteCode
from hvdprof.model.tables.rank_collective_tables import (
    INSPECTOR,
    INSPECTOR_COLLECTIVES,
    NO_MATCH,
    NSYS,
    RANK_COLLECTIVES,
    UNBOUNDED_CLOCK_NS,
    inspector_job,
)
from hvdprof.rundir.regular_file import shown_name

if TYPE_CHECKING:
    from hvdprof.ingest.recorder.recorder_file import RecorderFile

_TEXTS = ("file", "communicator", "host", "collective", "algorithm", "protocol")
_PROCESS = ["file", "in_file"]


def match_rank_calls(builder: RunBuilder) -> None:
    """Add the calls of Inspector logs, and match those of exports of Nsight Systems."""
    logs = builder.frames.get(INSPECTOR_COLLECTIVES.name, [])
    if logs:
        jobs = _inspector_jobs(below_each_other(INSPECTOR_COLLECTIVES, logs))
        builder.add_tables((RANK_COLLECTIVES.name, with_matches(job)) for job in jobs)
    frames = builder.frames.get(RANK_COLLECTIVES.name, [])
    exports = [frame for frame in frames if (frame["source"] == NSYS).all()]
    if exports:
        others = [frame for frame in frames if not (frame["source"] == NSYS).all()]
        builder.frames[RANK_COLLECTIVES.name] = [*others, *_nsys_jobs(exports)]


def _inspector_jobs(rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The timed calls of each job: processes of a folder with one largest communicator."""
    known = ["start_ns", "end_ns", "rank", "num_ranks"]
    calls = rows[rows[known].notna().all(axis=1)].drop_duplicates(
        ["file", "communicator", "seq", "rank", "collective"]
    )
    if calls.empty:
        return
    text = dict.fromkeys(_TEXTS, str)
    calls = calls.astype(text | dict.fromkeys(known, "int64"))
    # A log is of one process, but the logs of several may be in one file.
    lowest, highest = (
        calls.groupby(["file", "communicator"])["rank"].agg(of) for of in ("min", "max")
    )
    joined = lowest[lowest < highest].index.get_level_values("file")
    calls["in_file"] = calls["rank"].where(calls["file"].isin(joined), 0)
    folders = {file: str(Path(file).parent) for file in calls["file"].unique()}
    calls["folder"] = calls["file"].map(folders)
    largest = calls.sort_values("num_ranks", kind="stable").groupby(_PROCESS).tail(1)
    largest = largest.set_index(_PROCESS)[["communicator", "rank"]]
    calls = calls.join(largest.add_prefix("of_job_"), on=_PROCESS)
    for folder, of_folder in calls.groupby("folder", sort=False):
        several = len(set(of_folder["of_job_communicator"])) > 1
        for name, job in of_folder.groupby("of_job_communicator", sort=False):
            yield _of_job(inspector_job(str(folder), str(name) if several else ""), job)


def _of_job(name: str, calls: pd.DataFrame) -> pd.DataFrame:
    calls = calls.sort_values(["of_job_rank", "start_ns"], kind="stable")
    hosts = calls["host"]
    is_same = (hosts == hosts.iloc[0]) & (hosts != "")
    return RANK_COLLECTIVES.frame(
        {
            "pass_id": name,
            "segment": "main",
            "source": INSPECTOR,
            "rank": calls["of_job_rank"],
            "step": -1,
            "group": calls["communicator"],
            "group_size": calls["num_ranks"],
            "seq": calls["seq"],
            "match_id": NO_MATCH,
            "collective": calls["collective"].map(
                {name: collective_of(name) for name in calls["collective"].unique()}
            ),
            "name": (
                calls["collective"] + " " + calls["algorithm"] + " " + calls["protocol"]
            ).str.strip(),
            "dtype": "",
            "size_bytes": calls["size_bytes"],
            "submitted_ns": pd.NA,
            "start_ns": calls["start_ns"],
            "arrival_ns": calls["start_ns"],
            "end_ns": calls["end_ns"],
            "exposed_ns": pd.NA,
            "state": "completed",
            "clock_error_ns": np.where(is_same, 0, UNBOUNDED_CLOCK_NS),
        }
    )


def _nsys_jobs(exports: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """One job of all exports whose ranks differ; else each export is one."""
    ranks = [rank for frame in exports for rank in frame["rank"].unique()]
    if len(set(ranks)) < len(ranks):
        return [with_matches(frame) for frame in exports]
    joined = below_each_other(RANK_COLLECTIVES, exports)
    if len(exports) > 1:
        first = str(exports[0]["pass_id"].iloc[0])
        error = np.where(joined["pass_id"] == first, 0, UNBOUNDED_CLOCK_NS)
        more = f"{first} and {len(exports) - 1} more"
        joined = joined.assign(clock_error_ns=error, pass_id=more)
    return [with_matches(joined)]


def add_recordings(files: Sequence[Recognised], builder: RunBuilder) -> list[FileEntry]:
    """Add what ranks recorded of a launch without its run; those of one folder are of one launch.

    Returns:
        The entries of the files of recorders, also of those that are left out.
    """
    by_folder: dict[Path, list[Recognised]] = {}
    for file in files:
        if file.kind == Kind.RECORDER:
            by_folder.setdefault(file.path.parent, []).append(file)
    entries = [
        entry
        for folder, members in by_folder.items()
        for entry in _add_launch(folder, members, builder)
    ]
    return entries + _left_out_samples(files, builder)


def _left_out_samples(files: Sequence[Recognised], builder: RunBuilder) -> list[FileEntry]:
    """Files of samples: they name no steps, and some no rank, so that a run has to."""
    entries = [FileEntry(file, file.what) for file in files if file.kind == Kind.SAMPLES]
    if entries:
        others = f" and {len(entries) - 1} more" if len(entries) > 1 else ""
        error = UnreadableInputError(
            f"{entries[0].found.name}{others}: samples are read with their run directory.",
            hint="Give it: hvdprof analyze RUN",
        )
        builder.notes += dict.fromkeys(entry.fail(error, NoteCode.LEFT_OUT) for entry in entries)
    return entries


def _add_launch(folder: Path, found: Sequence[Recognised], builder: RunBuilder) -> list[FileEntry]:
    """The recordings of one launch: those that lie in one folder."""
    from hvdprof.ingest.recorder.light_steps import steps_from_windows
    from hvdprof.ingest.recorder.recorder_lines import read_recorder_file
    from hvdprof.ingest.recorder.session_rows import alignment_of, exclude_evaluations, others_in

    files: dict[int, RecorderFile] = {}
    entries = []
    by_rank = {}
    for number, one in enumerate(found):
        entry = FileEntry(one, one.what)
        entries.append(entry)
        try:
            file = read_recorder_file(one.path)
        except OSError as error:
            builder.notes.append(entry.fail(error))
            continue
        rank = file.header_number("rank", number)
        if rank in files:
            reason = f"{one.name}: another file holds rank {rank}; left out."
            builder.notes.append(entry.fail(UnreadableInputError(reason), NoteCode.LEFT_OUT))
            continue
        files[rank], by_rank[rank] = file, entry
        builder.notes += [clause.at(one.name, ranks=[rank]) for clause in file.clauses()]
        entry.num_rows = sum(
            segment.num_steps or len(segment.windows) for segment in file.segments.values()
        )
        entry.num_rows += len(file.marks) + bool(file.header)
    steps_from_windows(files.values())
    for rank, why in others_in(files).items():
        why_not = UnreadableInputError(why.at(by_rank[rank].found.name).text)
        builder.notes.append(by_rank[rank].fail(why_not, why.code))
        by_rank[rank].num_rows = 0
        del files[rank]
    # Ranks whose recordings are not given may have trained on in a step with an evaluation.
    if len(files) >= max((file.header_number("size", 0) for file in files.values()), default=0):
        exclude_evaluations(files.values())
    for rank, file in sorted(files.items()):
        builder.add_recording(shown_name(folder), rank, file, alignment_of(file, files.get(0)))
    return entries

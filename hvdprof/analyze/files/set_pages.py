"""The pages of files that only speak together: dumps, traces and recordings of a job."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from hvdprof import units
from hvdprof.analyze.files.hang_verdict import (
    hang_facts,
    hang_sentence,
    no_hang_verdict,
    progress_hang,
)
from hvdprof.analyze.files.last_to_submit import last_to_submit_facts, last_to_submit_verdict
from hvdprof.analyze.files.log_facts import recording_facts, recording_unanswered
from hvdprof.analyze.files.next_recording import torch_recording_command
from hvdprof.model.file_page import (
    PHASE_LOG,
    PROFILER_TRACE,
    Fact,
    FilePage,
    FileVerdict,
    Gravity,
    Unanswered,
)
from hvdprof.model.frame_row import FrameRow
from hvdprof.model.nccl_recording import NcclRecording
from hvdprof.model.run import Run
from hvdprof.model.step_parts import PART_NAMES, RECORDED_PARTS
from hvdprof.model.tables.log_tables import FILES
from hvdprof.model.tables.rank_collective_tables import COLLECTIVE_PROGRESS, RANK_COLLECTIVES
from hvdprof.rank_names import ranks_listed, ranks_named

FLIGHT_RECORDER = "PyTorch Flight Recorder dump"
RECORDER = "recorder file"
_NCCL_LOG = "NCCL log"


def dump_pages(run: Run, files: list[FrameRow]) -> list[FilePage]:
    """A page for each job, in the order of its first file.

    Args:
        run: The run with the tables.
        files: Rows of FILES that are dumps.
    """
    progress = run.table(COLLECTIVE_PROGRESS.name)
    calls = run.table(RANK_COLLECTIVES.name)
    pages = []
    for job in progress.loc[(progress["source"] == "flight-recorder").to_numpy(), "job"].unique():
        own = progress[(progress["job"] == job).to_numpy()]
        members = [row for row in files if row["file"] in set(own["file"])]
        pages.append(_page(str(job), own, calls[(calls["pass_id"] == job).to_numpy()], members))
    return pages


def _page(
    job: str, progress: pd.DataFrame, calls: pd.DataFrame, members: list[FrameRow]
) -> FilePage:
    hang = progress_hang(progress)
    ranks = sorted({int(rank) for rank in progress["rank"]})
    absent = _absent(progress, ranks)
    sentence = hang_sentence(hang)
    if sentence:
        verdict = FileVerdict(sentence, _caveat(absent, is_hang=True), Gravity.HANG)
    elif len(ranks) == 1:
        verdict = FileVerdict("One dump alone does not show which rank is behind.", "")
    else:
        verdict = no_hang_verdict(hang, len(ranks), absent)
        # Ranks that hang are not last but absent.
        last = FileVerdict("") if hang.pending else last_to_submit_verdict(calls)
        verdict = FileVerdict(
            " ".join(filter(None, (verdict.sentence, last.sentence))),
            " ".join(filter(None, (_caveat(absent), last.caveat))),
            min(verdict.gravity, last.gravity),
        )
    number = len(members)
    return FilePage(
        file=job,
        kind=FLIGHT_RECORDER if number == 1 else f"{number} {FLIGHT_RECORDER}s",
        size_bytes=sum(int(row["size_bytes"]) for row in members),
        facts=(
            Fact("num_ranks", "ranks", len(ranks)),
            *([Fact("missing_dumps", "no dump of ranks", ranks_listed(absent))] if absent else []),
            Fact("num_groups", "process groups", int(progress["group"].nunique())),
            *hang_facts(hang),
            Fact("num_calls", "collectives recorded, all ranks", len(calls)),
            *last_to_submit_facts(calls),
        ),
        unanswered=(
            Unanswered(
                "how long ranks wait and what a step loses (submissions have no ends)",
                torch_recording_command(_world_size(progress)),
            ),
        ),
        verdict=verdict.sentence,
        caveat=verdict.caveat,
        gravity=verdict.gravity,
    )


def _absent(progress: pd.DataFrame, ranks: list[int]) -> list[int]:
    """Ranks of any group without a dump."""
    return sorted(_named(progress) - set(ranks))


def _world_size(progress: pd.DataFrame) -> int | None:
    """Ranks of the job, of which some may have no dump here; None where one rank shows no other."""
    size = max(_named(progress) | {int(rank) for rank in progress["rank"]}) + 1
    return size if size > 1 else None


def _named(progress: pd.DataFrame) -> set[int]:
    """Members of any group."""
    texts = progress["group_ranks"].unique()
    return {int(rank) for text in texts for rank in str(text).split(",") if rank.strip()}


def _caveat(absent: list[int], *, is_hang: bool = False) -> str:
    parts = []
    if absent:
        who, verb = ("it", "is") if len(absent) == 1 else ("they", "are")
        parts.append(
            f"No dump of {ranks_named(absent)}: {who} may be behind, and {verb} not compared."
        )
    if is_hang:
        parts.append(
            "If the job still ran, ranks differ by the moments of their dumps: compare two dumps."
        )
    return " ".join(parts)


def of_jobs(run: Run, files: Sequence[FrameRow]) -> list[list[FrameRow]]:
    """The files by page: NCCL logs of one job share one, since all of them say the same.

    Args:
        run: The run with the recordings of the jobs.
        files: Rows of FILES.
    """
    groups: dict[object, list[FrameRow]] = {}
    for row in files:
        key: object = row["file"]
        if row["kind"] == _NCCL_LOG and row["num_rows"]:
            key = next((job for job, own in enumerate(run.nccl) if is_log_of(own, key)), key)
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def is_log_of(recording: NcclRecording, file: object) -> bool:
    """Whether a file holds NCCL's lines of a job."""
    return bool((recording.line_kinds["file"] == file).any())


def is_used_trace(row: FrameRow) -> bool:
    """Whether a row of FILES is a trace, or a phase log, that the run is made of."""
    return bool(row["num_rows"]) and str(row["kind"]).startswith((PROFILER_TRACE, PHASE_LOG))


def trace_pages(run: Run, files: Sequence[FrameRow]) -> list[FilePage]:
    """One page for the traces of a job; none without any.

    Args:
        run: The run that the traces make up.
        files: Rows of FILES that are traces of it.
    """
    if not files:
        return []
    number = len(files)
    more = f" and {number - 1} more" if number > 1 else ""
    size = run.manifest.passes[0].size
    is_log = files[0]["kind"] == PHASE_LOG
    noun = PHASE_LOG if is_log else PROFILER_TRACE
    return [
        FilePage(
            file=f"{files[0]['file']}{more}",
            kind=str(files[0]["kind"]) if number == 1 else f"{number} {noun}s",
            size_bytes=sum(int(row["size_bytes"]) for row in files),
            facts=(
                Fact("num_ranks", "ranks", size),
                *([Fact("num_traces", "ranks with a trace", number)] if number < size else []),
                Fact(
                    "num_events",
                    "steps of all ranks" if is_log else "events",
                    sum(int(row["num_rows"]) for row in files),
                ),
                *_part_facts(run.steps),
            ),
            unanswered=(),
        )
    ]


def _part_facts(steps: pd.DataFrame) -> list[Fact]:
    """Where the time of a steady step goes, as a mean of all ranks."""
    steady = steps[~steps["warmup"].to_numpy()]
    if steady.empty or steady["blocked_ns"].isna().any():
        return []
    means = {part: float(steady[f"{part}_ns"].mean()) for part in RECORDED_PARTS}
    length = sum(means.values())
    lines = [
        f"{PART_NAMES[part]} {units.milliseconds(mean)} ({units.percent(mean / length)})"
        for part, mean in means.items()
        if mean > 0
    ]
    return [Fact("step_parts", "mean step of a rank", length, "ns", "\n".join(lines))]


def recording_pages(run: Run) -> list[FilePage]:
    """A page for each launch whose recorder files were given."""
    rows = run.table(FILES.name).to_dict("records")
    files = [row for row in rows if row["kind"] == RECORDER]
    pages = []
    for launch in run.ranks["pass_id"].unique():
        steps = run.steps[run.steps["pass_id"] == launch]
        ranks = run.ranks[run.ranks["pass_id"] == launch]
        members = [row for row in files if str(Path(str(row["file"])).parent) == str(launch)]
        facts = recording_facts(steps, ranks)
        pages.append(
            FilePage(
                file=str(members[0]["file"]) if len(members) == 1 else str(launch),
                kind=f"{len(members)} recorder files" if len(members) != 1 else RECORDER,
                size_bytes=sum(int(row["size_bytes"]) for row in members),
                facts=tuple(facts),
                unanswered=(recording_unanswered(ranks),),
                verdict=_recorded({fact.name: fact.value for fact in facts}),
            )
        )
    return pages


def _recorded(facts: Mapping[str, object]) -> str:
    """The length of a step and its blocked part, or that no step was recorded."""
    median, share = facts["step_median_ns"], facts["blocked_share"]
    if median is None:
        return "No steady step in these files."
    of = units.counted(int(str(facts["num_steps"])), "step")
    blocked = "" if share is None else f", {units.percent(float(str(share)))} of it blocked"
    return f"{units.milliseconds(float(str(median)))} per step (median of {of}){blocked}."

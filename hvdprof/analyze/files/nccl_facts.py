"""What NCCL's logs say: versions, communicators, ranks, transports and calls."""

import pandas as pd

from hvdprof import units
from hvdprof.analyze.nccl_join.nccl_call_join import CallJoin
from hvdprof.analyze.nccl_join.nccl_job_join import JobJoin
from hvdprof.model.file_page import Fact
from hvdprof.model.nccl_recording import NcclRecording

_MOST_NAMES = 6


def nccl_facts(recording: NcclRecording) -> list[Fact]:
    """Versions, communicators, ranks, transports and calls of one job's NCCL logs."""
    communicators, ranks = recording.communicators, recording.ranks
    lines = recording.line_kinds
    number = int(communicators["num_joined"].sum())
    of_ranks = [
        Fact("num_communicators", "communicators", number, text=_communicators(communicators)),
        Fact("largest_communicator", "largest, ranks", _largest(communicators["num_ranks"])),
        Fact("num_complete", "inits completed", int(ranks["complete"].sum())),
        Fact("num_nccl_ranks", "of ranks seen, all communicators", len(ranks)),
    ]
    return [
        Fact("nccl_versions", "NCCL", _named(recording.versions["version"])),
        *(of_ranks if len(communicators) else ()),
        Fact("transports", "transports", _counted(recording.connections["transport"])),
        Fact("num_calls", "collective calls", len(recording.calls)),
        Fact("num_problems", "warnings and errors", int(recording.problems["count"].sum())),
        Fact("num_nccl_lines", "NCCL lines", int(lines["count"].sum())),
        Fact(
            "num_not_understood",
            "of them not understood",
            int(lines.loc[~lines["understood"], "count"].sum()),
        ),
    ]


def _communicators(communicators: pd.DataFrame) -> str:
    """Their number by size; the log does not always distinguish those of one size."""
    number = int(communicators["num_joined"].sum())
    sizes = communicators.dropna(subset=["num_ranks"]).groupby("num_ranks")["num_joined"].sum()
    if len(sizes) < 2:
        return units.count(number)
    of_sizes = ", ".join(f"{count} of {size}" for size, count in sizes.items())
    return f"{units.count(number)} ({of_sizes} ranks)"


def join_facts(join: CallJoin) -> list[Fact]:
    """How many calls of rank 0 belong for sure to an execution of the timeline beside them."""
    return [
        Fact("num_joined_calls", "calls tied to executions", len(join.pairs)),
        Fact("num_unjoined_calls", "calls without an execution", join.num_unjoined_calls),
        Fact("num_unjoined_executions", "executions without a call", join.num_unjoined_executions),
        Fact("num_ambiguous_pairs", "ambiguous pairs", join.num_ambiguous),
    ]


def job_join_facts(joined: JobJoin) -> list[Fact]:
    """The same of a job beside any number of timelines, or why nothing was joined."""
    if joined.join is not None:
        timeline = Fact("timeline_of_calls", "timeline of its calls", joined.fitting[0])
        return [timeline, *join_facts(joined.join)]
    if not joined.fitting:
        reason = f"none of {joined.num_timelines} fits"
    elif len(joined.fitting) == 1:
        reason = f"{joined.fitting[0]} fits other logs too"
    else:
        reason = f"{len(joined.fitting)} of {joined.num_timelines} fit"
    return [Fact("timeline_of_calls", "timeline of its calls", reason)]


def _named(values: pd.Series) -> str | None:
    names = [str(name) for name in values.dropna().unique()]
    return ", ".join(names[:_MOST_NAMES]) or None


def _counted(values: pd.Series) -> str | None:
    numbers = values.astype(str).value_counts()
    return ", ".join(f"{name} {number}" for name, number in numbers.items()) or None


def _largest(values: pd.Series) -> int | None:
    known = values.dropna()
    return int(known.max()) if len(known) else None

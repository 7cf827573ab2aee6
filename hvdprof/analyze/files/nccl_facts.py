"""What NCCL's logs and the reports of its RAS subsystem say: facts, and who does not answer."""

import pandas as pd

from hvdprof import units
from hvdprof.analyze.nccl_join.nccl_call_join import CallJoin
from hvdprof.analyze.nccl_join.nccl_job_join import JobJoin
from hvdprof.model.file_page import Fact, FileVerdict, Gravity
from hvdprof.model.nccl_recording import NcclRecording
from hvdprof.rank_names import ranks_listed, ranks_named

_MOST_NAMES = 6
_RUNNING = (
    "In a running job the counts differ from moment to moment: query again. In a hang "
    "they do not grow."
)


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


def ras_verdict(progress: pd.DataFrame) -> FileVerdict:
    """Ranks that do not answer first, then ranks with fewer operations; empty without a report.

    Args:
        progress: Rows of COLLECTIVE_PROGRESS of one file.
    """
    rows = _of_reports(progress)
    if rows.empty:
        return FileVerdict("")
    silent = rows[(rows["status"] != "").to_numpy()]
    if len(silent):
        status = str(silent["status"].iloc[0])
        named = ranks_named(silent["rank"]).capitalize()
        where = f" of communicator {silent['group'].iloc[0]}"
        verb = "is" if len(set(silent["rank"])) == 1 else "are"
        return FileVerdict(
            f"{named}{where} {verb} {status}. Fix: look at the process and its host (dmesg).",
            gravity=Gravity.ERROR,
        )
    behind = _behind(rows)
    if behind is None:
        return FileVerdict("All ranks launched the same number of collectives.", _RUNNING)
    group, low, high, ranks = behind
    verb = "is" if len(ranks) == 1 else "are"
    return FileVerdict(
        f"{ranks_named(ranks).capitalize()} of communicator {group} {verb} behind: {low} of "
        f"{high} collectives launched. Fix: look at the end of their output, and at what they do "
        "instead.",
        _RUNNING,
        Gravity.WARNING,
    )


def ras_facts(progress: pd.DataFrame) -> list[Fact]:
    """Communicators, ranks, and those that do not answer or are behind."""
    rows = _of_reports(progress)
    if rows.empty:
        return []
    silent = rows[(rows["status"] != "").to_numpy()]
    behind = _behind(rows)
    facts = [
        Fact("num_communicators", "communicators", int(rows["group"].nunique())),
        Fact("num_nccl_ranks", "ranks reported", len(rows.drop_duplicates(["group", "rank"]))),
    ]
    if len(silent):
        facts.append(Fact("silent_ranks", "without an answer", ranks_listed(silent["rank"])))
    if behind is not None:
        _, low, high, ranks = behind
        named = ranks_listed(ranks)
        text = f"{named} ({low} of {high} launched)"
        facts.append(Fact("behind_ranks", "ranks with the fewest collectives", named, text=text))
    return facts


def _of_reports(progress: pd.DataFrame) -> pd.DataFrame:
    return progress[(progress["source"] == "ras").to_numpy()]


def _behind(rows: pd.DataFrame) -> tuple[str, int, int, list[int]] | None:
    """Communicator, fewest and most operations and the ranks with the fewest, largest gap first."""
    found = []
    for group, members in rows.dropna(subset=["last_enqueued"]).groupby("group", observed=True):
        low, high = int(members["last_enqueued"].min()), int(members["last_enqueued"].max())
        if low < high:
            ranks = sorted(
                int(rank) for rank in members.loc[members["last_enqueued"] == low, "rank"]
            )
            found.append((str(group), low, high, ranks))
    return max(found, key=lambda gap: gap[2] - gap[1], default=None)

"""The pages of files that only speak together: dumps, traces and recordings of a job."""

from collections.abc import Iterable, Mapping, Sequence
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
from hvdprof.analyze.files.next_recording import SCALING_COMMAND, torch_recording_command
from hvdprof.analyze.files.steady_steps import steady_steps
from hvdprof.analyze.files.timelines.timeline_facts import timeline_facts, timeline_unanswered
from hvdprof.analyze.files.timelines.timeline_sums import (
    EXECUTION_COLUMNS,
    USE_COLUMNS,
    TimelineSums,
    size_of,
    sums_of,
)
from hvdprof.analyze.files.timelines.timeline_verdict import pending_fact, verdict_of_sums
from hvdprof.model.arrays import FrameRow
from hvdprof.model.causes import PART_NAMES, RECORDED_PARTS
from hvdprof.model.file_page import (
    PHASE_LOG,
    PROFILER_TRACE,
    Fact,
    FilePage,
    FileVerdict,
    Gravity,
    Unanswered,
)
from hvdprof.model.run import Run
from hvdprof.model.tables.rank_collective_tables import COLLECTIVE_PROGRESS, RANK_COLLECTIVES
from hvdprof.model.tables.timeline_tables import (
    EXECUTIONS,
    INFERRED_STEPS,
    PENDING_NEGOTIATIONS,
    TENSOR_USES,
    TIMELINES,
)
from hvdprof.rank_names import ranks_listed, ranks_named

_ROWS_OF_TIMELINES = (TENSOR_USES.name, EXECUTIONS.name, INFERRED_STEPS.name)


def dump_pages(run: Run, files: Sequence[FrameRow]) -> list[FilePage]:
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
    # Ranks of any group without a dump.
    absent = sorted(_named(progress) - set(ranks))
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
    facts = (
        Fact("num_ranks", "ranks", len(ranks)),
        *([Fact("missing_dumps", "no dump of ranks", ranks_listed(absent))] if absent else []),
        Fact("num_groups", "process groups", int(progress["group"].nunique())),
        *hang_facts(hang),
        Fact("num_calls", "collectives recorded, all ranks", len(calls)),
        *last_to_submit_facts(calls),
    )
    asked = Unanswered(
        "how long ranks wait and what a step loses (submissions have no ends)",
        torch_recording_command(_world_size(progress)),
    )
    return page_of(members, job, facts, [asked], verdict)


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


def trace_pages(run: Run, files: Sequence[FrameRow]) -> list[FilePage]:
    """One page for the traces, or the phase logs, of a job.

    Args:
        run: The run that the traces make up.
        files: Rows of FILES that are traces of it.
    """
    number, size = len(files), run.manifest.passes[0].size
    is_log = files[0]["kind"] == PHASE_LOG
    facts = (
        Fact("num_ranks", "ranks", size),
        *([Fact("num_traces", "ranks with a trace", number)] if number < size else []),
        Fact(
            "num_events",
            "steps of all ranks" if is_log else "events",
            sum(int(row["num_rows"]) for row in files),
        ),
        *_part_facts(run.steps),
    )
    # The kind of a trace names its rank.
    several = f"{PHASE_LOG if is_log else PROFILER_TRACE}s"
    return [page_of(files, first_and_more(files), facts, (), FileVerdict(""), several)]


def first_and_more(members: Sequence[FrameRow]) -> str:
    """``a.log and 2 more``: some files by the first."""
    more = f" and {len(members) - 1} more" if len(members) > 1 else ""
    return f"{members[0]['file']}{more}"


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


def recording_pages(run: Run, files: Sequence[FrameRow]) -> list[FilePage]:
    """A page for each launch whose recorder files were given.

    Args:
        run: The run that the files make up.
        files: Rows of FILES that are recorder files.
    """
    pages = []
    for launch in run.ranks["pass_id"].unique():
        steps = run.steps[run.steps["pass_id"] == launch]
        ranks = run.ranks[run.ranks["pass_id"] == launch]
        members = [row for row in files if str(Path(str(row["file"])).parent) == str(launch)]
        if not members:
            # Traces that lie beside recorder files have a page of their own.
            continue
        facts = recording_facts(steps, ranks)
        name = str(members[0]["file"]) if len(members) == 1 else str(launch)
        verdict = FileVerdict(_recorded({fact.name: fact.value for fact in facts}))
        pages.append(page_of(members, name, facts, [recording_unanswered(ranks)], verdict))
    return pages


def _recorded(facts: Mapping[str, object]) -> str:
    """The length of a step and its blocked part, or that no step was recorded."""
    median, share = facts["step_median_ns"], facts["blocked_share"]
    if median is None:
        return "No steady step in these files."
    of = units.counted(int(str(facts["num_steps"])), "step")
    blocked = "" if share is None else f", {units.percent(float(str(share)))} of it blocked"
    return f"{units.milliseconds(float(str(median)))} per step (median of {of}){blocked}."


def timeline_pages(run: Run, files: Sequence[FrameRow]) -> list[FilePage]:
    """A page for each timeline.

    Args:
        run: The run with their tables, of which those of large timelines are in the cache.
        files: Rows of FILES that are timelines.
    """
    return [_timeline_page(run, row) for row in files]


def _timeline_page(run: Run, file: FrameRow) -> FilePage:
    name = str(file["file"])
    (row,) = _rows_of_file(run, TIMELINES.name, name).to_dict("records")
    sums = _sums(run, name, size_of(row))
    pending = _rows_of_file(run, PENDING_NEGOTIATIONS.name, name)
    facts = (*timeline_facts(sums, row), *pending_fact(pending))
    asked = timeline_unanswered(sums, row)
    return page_of([file], name, facts, asked, verdict_of_sums(sums, pending, row))


def page_of(
    members: Sequence[FrameRow],
    name: str,
    facts: Iterable[Fact],
    unanswered: Iterable[Unanswered],
    verdict: FileVerdict,
    several: str = "",
) -> FilePage:
    """The page of some files; one that hangs or fails does not ask how well it scales.

    Args:
        members: Their rows of FILES.
        name: What they are called together.
        facts: What they say.
        unanswered: What they do not say.
        verdict: The first sentence.
        several: What several of them are; else it is their kind with an s.
    """
    kind, number = str(members[0]["kind"]), len(members)
    return FilePage(
        file=name,
        kind=kind if number == 1 else f"{number} {several or f'{kind}s'}",
        size_bytes=sum(int(row["size_bytes"]) for row in members),
        facts=tuple(facts),
        unanswered=tuple(
            asked
            for asked in unanswered
            if verdict.gravity > Gravity.ERROR or asked.command != SCALING_COMMAND
        ),
        verdict=verdict.sentence,
        caveat=verdict.caveat,
        left_out=str(members[0]["left_out"]),
        gravity=verdict.gravity,
        has_numbers=verdict.has_numbers,
        short=verdict.short,
    )


def _sums(run: Run, file: str, size: int | None) -> TimelineSums:
    cached = run.cached.get(file)
    if cached is None:
        uses, executions, steps = (_rows_of_file(run, name, file) for name in _ROWS_OF_TIMELINES)
        return sums_of(uses, executions, steps, size)
    sums = TimelineSums(steady_steps(cached[INFERRED_STEPS.name].frame()), size)
    for uses in cached[TENSOR_USES.name].frames(USE_COLUMNS):
        sums.add_uses(uses)
    for executions in cached[EXECUTIONS.name].frames(EXECUTION_COLUMNS):
        sums.add_executions(executions)
    return sums


def _rows_of_file(run: Run, table: str, file: str) -> pd.DataFrame:
    """Rows of a table of timelines, whose pass is the file."""
    frame = run.table(table)
    return frame[frame["pass_id"] == file]

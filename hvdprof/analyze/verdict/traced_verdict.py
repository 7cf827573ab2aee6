"""The verdict on profiler traces: length of a step, largest loss, and what the traces lack.

Tested in ``tests/ingest/kineto/test_traced_run.py``.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pandas as pd

from hvdprof import units
from hvdprof.analyze.files.next_recording import TORCH_SCALING_COMMAND, torch_recording_command
from hvdprof.analyze.ranks.last_rank_verdict import Words, last_rank_clause, wait_text
from hvdprof.analyze.ranks.named_cause import LEAST_STEPS_OF_CAUSE, SMALLEST_SHARE
from hvdprof.analyze.verdict.agreement import CellAccount
from hvdprof.analyze.verdict.largest_loss import largest_loss
from hvdprof.model.causes import CAUSES, EXPOSED_TRANSFER, INPUT_BOUND, OUTSIDE_PHASES
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.run import Run, Sentence, Verdict, VerdictParts
from hvdprof.model.tables.rank_collective_tables import RANK_COLLECTIVES
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.attached import has_phase_logs

_FROM_PROFILER = "The profiler was on and makes steps longer."
_FROM_LOGS = (
    "The logs hold no waits: a rank waits where another one takes longer to fetch its batch or to "
    "collect garbage, which costs less where work is queued on a GPU. Who is slow within fwd_bwd "
    "(counted as backward) or optim is not seen, nor are ranks above the highest with a log."
)
_MOST_STEPS = 0.5
_SAME = 0.01
"""Median and mean that differ by less are one number."""
_OF_FEW_STEPS = (EXPOSED_TRANSFER, INPUT_BOUND, OUTSIDE_PHASES)
"""Terms that a few steps show; which rank is late, and how regularly, takes more."""


def without_rates(run: Run, scaling: pd.DataFrame) -> pd.DataFrame:
    """SCALING without what traces do not hold: a baseline, and samples where none were stated."""
    unknown = ["efficiency", "efficiency_low", "efficiency_high"]
    if not run.manifest.passes[0].segments[0].segment.batch_size:
        unknown += ["samples_per_s", "samples_per_s_low", "samples_per_s_high"]
    return scaling.assign(baseline="", **dict.fromkeys(unknown, float("nan")))


def traced_verdict(
    run: Run,
    scaling: pd.DataFrame,
    waterfall: pd.DataFrame,
    findings: pd.DataFrame,
    caused_wait: pd.DataFrame,
    account_of: Callable[[pd.Series], CellAccount],
) -> Verdict:
    """The verdict on the traces of a job.

    1.  The length of a step and its blocked part, with the profiler on.
    2.  The largest loss, where there is a trace of every rank and steps enough; else why none
        is named.
    3.  What is open, with the command that answers it.

    Args:
        run: A run whose steps come from traces.
        scaling: SCALING.
        waterfall: WATERFALL.
        findings: FINDINGS.
        caused_wait: CAUSED_WAIT.
        account_of: The account of the ranks of a cell.
    """
    record = run.manifest.passes[0]
    name = record.segments[0].segment.model
    if scaling.empty:
        answer = Verdict(_without_steps(run), name, record.size, *(float("nan"),) * 3, "", 0.0)
        return replace(answer, biggest_loss_share=float("nan"), engine=record.engine)
    cell = scaling.iloc[-1]
    length = units.milliseconds(cell["step_time_median_ns"])
    mean_ns = float(cell["blocked_ns"] / cell["blocked_share"]) if cell["blocked_share"] else 0.0
    is_hidden = bool(run.steps["blocked_ns"].isna().any())
    blocked = f", {units.percent(cell['blocked_share'])} of it blocked in collectives"
    if mean_ns and abs(mean_ns / cell["step_time_median_ns"] - 1) > _SAME:
        # All shares are of the mean: of the median they would be of another length.
        blocked = f" (median), mean {units.milliseconds(mean_ns)}{blocked}"
    missing = _missing_ranks(run)
    if missing:
        place = f"{ranks_named(run.ranks['rank'])} of {record.size}"
    else:
        place = f"{record.size} rank{'s' if record.size > 1 else ''}"
    # One rank has no other to wait for.
    is_silent = is_hidden or record.size == 1 or has_phase_logs(run.manifest)
    number = f"{name}, {place}: {length} per step{'' if is_silent else blocked}."
    num_steps = int(cell["num_steps"])
    few = num_steps < LEAST_STEPS_OF_CAUSE
    terms = _OF_FEW_STEPS if few else tuple(CAUSES)
    account = account_of(cell)
    loss = (
        None if missing else largest_loss(waterfall, findings, cell, terms=terms, account=account)
    )
    rest = "" if missing or is_hidden else "No single loss stands out."
    if few and (last := _last_rank(caused_wait, num_steps)):
        loss, rest = None, last
    text, short = Sentence(rest, rest) if loss is None else loss.sentence
    return Verdict(
        sentence=" ".join(filter(None, (number, text))),
        model=name,
        np=record.size,
        efficiency=float("nan"),
        efficiency_low=float("nan"),
        efficiency_high=float("nan"),
        biggest_loss="" if loss is None else loss.name,
        biggest_loss_share=float("nan") if loss is None else loss.share,
        engine=record.engine,
        caveats=tuple(_caveats(run, num_steps, missing)),
        parts=VerdictParts(
            headline=" ".join(filter(None, (number, short))),
            cause_id="" if loss is None else loss.cause_id,
            rival="" if loss is None else loss.rival,
        ),
    )


def _last_rank(caused_wait: pd.DataFrame, num_steps: int) -> str:
    """Which rank the others wait for, of steps too few to name a straggler; may be empty."""
    late = caused_wait[(caused_wait["share_last"] > _MOST_STEPS).to_numpy()]
    late = late[(late["cost_share"] >= SMALLEST_SHARE).to_numpy()]
    if late.empty:
        return ""
    row, words = late.iloc[0], Words("arrives", units.counted(num_steps, "step"), "step")
    wait_ns = float(row["wait_as_last_ns"])
    wait = wait_text(wait_ns, wait_ns * float(row["cost_share"] / row["cost_ns"]), words)
    number = round(float(row["share_last"]) * num_steps)
    clause = last_rank_clause(int(row["rank"]), number, words, wait)
    return f"Too few steps to name a straggler: {clause}."


def _missing_ranks(run: Run) -> list[int]:
    size = run.manifest.passes[0].size
    return sorted(set(range(size)) - set(run.ranks["rank"].tolist()))


def _times_collectives(run: Run) -> bool:
    calls = run.table(RANK_COLLECTIVES.name)
    return bool(len(calls)) and bool(calls["end_ns"].notna().any())


def _without_steps(run: Run) -> str:
    num_calls = len(run.table(RANK_COLLECTIVES.name))
    return (
        f"The traces hold no steps, but {units.count(num_calls)} collectives. Call "
        "profiler.step() after each step, and record again."
    )


def _uneven_steps(run: Run) -> Iterator[Note]:
    """Which rank has the fewest steps: a trace that was not written to its end is valid, too."""
    steady = run.steps[~run.steps["warmup"].to_numpy(dtype=bool)]
    by_rank: dict[int, set[int]] = {}
    for rank, step in zip(steady["rank"].tolist(), steady["step"].tolist(), strict=True):
        by_rank.setdefault(rank, set()).add(step)
    if not by_rank:
        return
    fewest = min(by_rank, key=lambda rank: len(by_rank[rank]))
    most = max(by_rank, key=lambda rank: len(by_rank[rank]))
    common = set.intersection(*by_rank.values())
    if len(common) < len(by_rank[most]):
        text = (
            f"After warm-up, rank {fewest} has {units.counted(len(by_rank[fewest]), 'step')}, "
            f"rank {most} has {len(by_rank[most])}: only the {len(common)} common to all ranks "
            "count."
        )
        yield Note(NoteCode.UNEVEN_STEPS, text, rank=fewest, number=len(common))


def _caveats(run: Run, num_steps: int, missing: list[int]) -> Iterator[Note]:
    size = run.manifest.passes[0].size
    yield from _uneven_steps(run)
    if missing:
        text = (
            f"Wait attribution unavailable: no whole trace of {ranks_named(missing)}. Give whole "
            f"traces of all ranks, or run `{torch_recording_command(size)}`."
        )
        yield Note(NoteCode.MISSING_RANKS, text, number=len(missing))
    elif run.steps["blocked_ns"].isna().any() and not _times_collectives(run):
        text = (
            "The traces time no collective: blocked time is unknown, and no straggler is named. "
            "Record with ProfilerActivity.CUDA where NCCL runs the collectives; else run "
            f"`{torch_recording_command(size)}`."
        )
        yield Note(NoteCode.NO_WAITS, text)
    elif run.steps["blocked_ns"].isna().any():
        text = (
            "FSDP1 on CPUs waits several times in a step, which traces do not separate from work "
            "(those of FSDP2 do, by their FSDP::all_gather ranges): no straggler is named. "
            "`matched_collectives` holds the wait in each collective."
        )
        yield Note(NoteCode.NO_WAITS, text)
    elif num_steps < LEAST_STEPS_OF_CAUSE and size > 1:
        text = (
            f"{num_steps} steps are too few to name a straggler, which takes "
            f"{LEAST_STEPS_OF_CAUSE}. Record more with schedule(active=20)."
        )
        yield Note(NoteCode.FEW_STEPS, text, number=num_steps)
    limits = _FROM_LOGS if has_phase_logs(run.manifest) else _FROM_PROFILER
    text = f"{limits} There is no baseline: `{TORCH_SCALING_COMMAND}` measures how the job scales."
    yield Note(NoteCode.NO_BASELINE, text)

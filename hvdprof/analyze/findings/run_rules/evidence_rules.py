"""Rules on the evidence itself: ranks that take turns, injected faults, clocks that contradict.

Tested in ``tests/analyze/findings/test_run_findings.py``.
"""

from collections.abc import Iterator

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.advice import advice, sentences, unset
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.finding import Finding
from hvdprof.analyze.findings.gpu_advice import FEWER_RANKS, sharing
from hvdprof.analyze.steps.cell_setting import cell_setting
from hvdprof.model.cell_key import LAUNCH
from hvdprof.model.notes import NoteCode
from hvdprof.model.schema import as_text
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.attached import attached_files
from hvdprof.rundir.manifest import Status

_CHECK_CLOCKS = advice(
    "check the hosts' clocks with `chronyc tracking`, let them settle, and measure again",
    "Do not suspend or migrate a machine meanwhile. Ignore `caused_wait` and `collective_arrivals` "
    "of these launches (`stragglers` needs no common clock).",
    command="chronyc tracking",
)
_EVEN_SHARDS = advice(
    "give all ranks equally many batches per epoch, and measure again",
    "Behind hvd.join() a rank with a longer shard takes steps that the others lack.",
)


LEAST_MISSING = 2
"""Steps by which the ranks of a launch differ that are said."""


def oversubscribed(evidence: Evidence) -> Iterator[Finding]:
    """More ranks than cores or GPUs; where ranks share GPUs, how many share how many."""
    scaling = evidence.table("scaling")
    cells = scaling.loc[scaling["oversubscribed"].to_numpy(dtype=bool), ["model", "np", "engine"]]
    by_size = {
        int(size): sharing(
            cell_setting(evidence.run, {"model": model, "np": size, "engine": engine})
        )
        for model, size, engine in cells.itertuples(index=False)
    }
    on_gpus = {size: by_size[size] for size in sorted(by_size) if by_size[size]}
    if on_gpus:
        yield Finding(
            "oversubscribed",
            "note",
            "np=" + ",".join(map(str, on_gpus)),
            "ranks that share a GPU",
            sentences(
                *(f"np={size}: {crowd}" for size, crowd in on_gpus.items()),
                "They take turns, which says nothing about scaling.",
            ),
            FEWER_RANKS,
            "certain",
        )
    confined = {size: cores for size in by_size if (cores := _confining(evidence, cells, size))}
    for size, cores in confined.items():
        yield Finding(
            "oversubscribed",
            "warning",
            f"np={size}",
            "ranks pinned to too few cores",
            f"np={size}: together the ranks may use fewer cores than they have threads, and these "
            f"take turns. The host has {units.counted(cores, 'core')}, enough for all.",
            advice(
                "give the ranks one core per thread: together they are pinned to fewer",
                "Look for taskset, numactl, sched_setaffinity, and how the launcher binds.",
            ),
            "certain",
        )
    sizes = sorted(set(by_size) - set(on_gpus) - set(confined))
    if sizes:
        yield Finding(
            "oversubscribed",
            "note",
            "np=" + ",".join(map(str, sizes)),
            "more ranks than cores or GPUs",
            f"np={', '.join(map(str, sizes))}: ranks share cores or GPUs and take turns. These "
            "sizes say nothing about scaling.",
            advice(
                "run at most as many ranks as there are cores",
                first="Run at most as many ranks as there are cores (or GPUs).",
            ),
            "certain",
        )


def _confining(evidence: Evidence, cells: pd.DataFrame, size: int) -> int:
    """Cores of the one host whose ranks share some, and could have one per thread; else 0."""
    row = cells[(cells["np"] == size).to_numpy()].iloc[0]
    names = {"model": row["model"], "np": size, "engine": row["engine"]}
    setting, ranks = cell_setting(evidence.run, names), evidence.run.ranks
    passes = list(evidence.launches_of(names)["pass_id"])
    own = ranks[ranks["pass_id"].astype(str).isin(passes).to_numpy()]
    masks, threads = own["num_affinity_cores"], own["num_threads"]
    is_masked = (masks > 0) & (masks < setting.num_cores) & (threads > 0)
    is_known = setting.num_hosts == 1 and not setting.on_gpus and len(own) > 0
    fits = is_known and is_masked.all() and size * int(threads.max()) <= setting.num_cores
    return setting.num_cores if fits else 0


def faults_injected(evidence: Evidence) -> Iterator[Finding]:
    """Recordings that say that faults were injected into them."""
    notes = [note for note in evidence.run.notes if note.code == NoteCode.FAULTS_INJECTED]
    if notes:
        faults = dict.fromkeys(note.value for note in notes)
        number = len({note.pass_id for note in notes})
        yield Finding(
            "faults-injected",
            "warning",
            "run",
            "faults injected on purpose",
            f"Faults were injected on purpose into {number} {'pass' if number == 1 else 'passes'}: "
            f"{' and '.join(faults)}. The numbers are those of the job with these faults.",
            unset("HVDPROF_FAULTS", " and measure without `hvdprof inject` before judging the job"),
            "certain",
            quote=notes[0].text,
        )


def clocks_contradict(evidence: Evidence) -> Iterator[Finding]:
    """Clocks by which a rank left a collective before the last rank had arrived at it."""
    clocks = evidence.table("clocks")
    wrong = clocks[~clocks["consistent"]]
    if wrong.empty:
        return
    num_launches = len(clocks[LAUNCH].drop_duplicates())
    num_wrong = len(wrong[LAUNCH].drop_duplicates())
    which = ranks_named(wrong["rank"])
    is_one_clock = not wrong[["exchange_error_ns", "offset_low_ns", "offset_high_ns"]].any(
        axis=None
    )
    what = f"The clock exchange is wrong for {which}"
    unreliable = "Wait attribution across hosts is unreliable"
    if is_one_clock:
        what = f"Steps of {which} with the same number are not the same step"
        unreliable = "All ranks read the same clock. What compares ranks is unreliable"
    yield Finding(
        "clocks-contradict",
        "warning",
        which,
        "steps that do not match" if is_one_clock else "contradicting clocks",
        f"{what} in {num_wrong} of {num_launches} launches. By these clocks a rank left a "
        f"collective before its last rank had arrived. {unreliable} there. The first of them is "
        f"{wrong['pass_id'].iloc[0]} (clocks.consistent is false).",
        _EVEN_SHARDS if is_one_clock else _CHECK_CLOCKS,
        "certain",
    )


def uneven_steps(evidence: Evidence) -> Iterator[Finding]:
    """Ranks that end after fewer steps than others, as before ``hvd.join()``.

    Only of launches that ran to their end: what a rank had not written yet, or lost, is no end. In
    an elastic launch ranks come and go.
    """
    run = evidence.run
    open_ended = {record.id for record in run.manifest.passes if record.session is not None}
    open_ended |= set(run.ranks.loc[~run.ranks["ended"].to_numpy(dtype=bool), "pass_id"])
    done = as_text(run.segments[(run.segments["status"] == Status.DONE).to_numpy()], LAUNCH)
    done = done[~done["pass_id"].isin(open_ended).to_numpy()].merge(evidence.measured[LAUNCH])
    steps = as_text(run.steps, LAUNCH).merge(done[LAUNCH], on=LAUNCH)
    if steps.empty or attached_files(run.manifest):
        return
    ends = steps.assign(end=steps["step"] + steps["num_steps"])
    by_rank = ends.pivot_table("end", LAUNCH, "rank", aggfunc="max")
    uneven = by_rank[(by_rank.max(axis=1) - by_rank.min(axis=1)) >= LEAST_MISSING]
    if uneven.empty:
        return
    fewest, most = uneven.iloc[0].min(), uneven.iloc[0].max()
    first, last = (uneven.iloc[0].eq(end).idxmax() for end in (fewest, most))
    yield Finding(
        "uneven-steps",
        "note",
        f"rank {first}",
        "ranks with different numbers of steps",
        f"Rank {first} ended after {fewest:.0f} steps, rank {last} after {most:.0f}, warm-up "
        f"included, in {uneven.index[0][0]}. Ranks differ so in {len(uneven)} of {len(by_rank)} "
        "launches. Steps that a rank lacks count in no number.",
        _EVEN_SHARDS,
        "certain",
    )

"""What several files say together: the last rank, how a job scales, how runs of one size differ."""

from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path

from hvdprof import units
from hvdprof.analyze.files.last_to_submit import last_to_submit_verdict
from hvdprof.analyze.files.nccl_facts import network_name
from hvdprof.analyze.scaling.scaling_verdict import scaling_verdicts
from hvdprof.analyze.scaling.throughput_scaling import (
    estimates_of,
    iteration_series,
    notes_on,
    throughput_scaling,
)
from hvdprof.model.file_page import FileVerdict, Gravity
from hvdprof.model.notes import texts
from hvdprof.model.run import Run
from hvdprof.model.standalone_files import ScalingOfText
from hvdprof.model.tables.log_tables import THROUGHPUT, THROUGHPUT_SCALING
from hvdprof.model.tables.printed_tables import NCCL_TEST_RUNS, NCCL_TESTS, TRAINING_ITERATIONS
from hvdprof.model.tables.rank_collective_tables import NSYS, RANK_COLLECTIVES
from hvdprof.rank_names import ranks_named

_SLOWER = 1.1
"""Runs that differ by less are alike."""


def scaling_of_run(run: Run) -> ScalingOfText:
    """How the series of throughputs of some files scale; those of one size alone are left out.

    Args:
        run: Standalone files.
    """
    throughput = run.table(THROUGHPUT.name)
    positive = throughput[(throughput["samples_per_s"] > 0).to_numpy()]
    sizes = positive.groupby("series", observed=True)["np"].nunique()
    several = {str(name) for name in sizes[sizes > 1].index}
    if not several:
        return ScalingOfText(THROUGHPUT_SCALING.empty(), (), texts(run.notes))
    logs = iteration_series(run.table(TRAINING_ITERATIONS.name))
    chosen = throughput[throughput["series"].astype(str).isin(several)]
    scaling = throughput_scaling(chosen, repeats=True, logs=estimates_of(logs))
    own = {name: logs[name] for name in logs if name in set(chosen["file"])}
    return ScalingOfText(scaling, scaling_verdicts(scaling), (*texts(run.notes), *notes_on(own)))


def joint_verdicts(run: Run) -> tuple[FileVerdict, ...]:
    """What the files say together, the last rank first; little of one file alone.

    Args:
        run: Standalone files.
    """
    rows = run.table(THROUGHPUT.name)
    several = any(len(set(rows[name])) > 1 for name in ("file", "series"))
    scaled = scaling_of_run(run).verdicts if several else ()
    return (*last_ranks_of_exports(run), *_throughputs(run), *_bandwidths(run), *scaled)


def last_ranks_of_exports(run: Run) -> Iterator[FileVerdict]:
    """The last rank of exports of Nsight Systems with payloads, each of some ranks of a job.

    Args:
        run: Standalone files, or a run directory with attached exports.
    """
    calls = run.table(RANK_COLLECTIVES.name)
    calls = calls[(calls["source"] == NSYS).to_numpy()]
    for _, job in calls.groupby("pass_id", observed=True, sort=False):
        ranks = ranks_named(sorted({int(rank) for rank in job["rank"]}))
        alone = f"Exports of {ranks} alone do not say which rank the others wait for."
        verdict = last_to_submit_verdict(job)
        yield verdict if verdict.sentence else FileVerdict(alone, has_numbers=False)


def _throughputs(run: Run) -> Iterator[FileVerdict]:
    """Of files with one model, batch size and number of ranks, the fastest and the slowest."""
    rows = run.table(THROUGHPUT.name)
    # Tables without a name may be of any jobs.
    rows = rows[((rows["samples_per_s"] > 0) & (rows["series"].astype(str) != "")).to_numpy()]
    for (series, size), own in rows.groupby(["series", "np"], observed=True, sort=False):
        rates = own.groupby("file", observed=True)["samples_per_s"].mean().to_dict()
        what = f"{series}, {units.counted(int(str(size)), 'rank')}"
        yield from _compared(run, what, rates, "samples/s", "The files do not show what differs.")


def _bandwidths(run: Run) -> Iterator[FileVerdict]:
    """Of nccl-tests of one operation and number of ranks, the bandwidths at their largest size."""
    runs, rows = run.table(NCCL_TEST_RUNS.name), run.table(NCCL_TESTS.name)
    kind = ["operation", "np", "device"]
    for (operation, size, device), own in runs.groupby(kind, observed=True):
        # A file with several runs compares settings that it does not name.
        tested = rows[rows["file"].isin(own["file"]).to_numpy()]
        by_size = tested.pivot_table("busbw_gb_s", "size_bytes", "file", "max", observed=True)
        common = by_size[(by_size > 0).all(axis=1)]
        if own["file"].duplicated().any() or common.empty:
            continue
        what = [str(operation), str(device), units.counted(int(str(size)), "rank")]
        at = units.byte_size(int(common.index[-1]))
        caveat = "" if operation else "The files do not name the operation."
        rates = common.iloc[-1].to_dict()
        yield from _compared(run, ", ".join(filter(None, [*what, at])), rates, "GB/s", caveat)


def _compared(
    run: Run, what: str, rates: Mapping[Hashable, float], unit: str, caveat: str
) -> Iterator[FileVerdict]:
    """The slowest file against the fastest, with the network of each where the log shows it."""
    if len(rates) < 2:
        return
    ascending = sorted((rate, str(file)) for file, rate in rates.items())
    (low, last), (high, first) = ascending[0], ascending[-1]
    slow, fast = (units.of_unit(rate, unit) for rate in (low, high))
    if high < _SLOWER * low:
        within = f"within {units.percent(high / low - 1)}"
        yield FileVerdict(f"{what}: {slow} to {fast} in {len(rates)} files: {within}.")
        return
    over = [_network_of(run, file) for file in (first, last)]
    fast, slow = (
        f"{rate}{text if over[0] != over[1] else ''} ({Path(file).name})"
        for rate, text, file in zip((fast, slow), over, (first, last), strict=True)
    )
    of = f", slowest against fastest of {len(rates)} files" if len(rates) > 2 else ""
    yield FileVerdict(
        f"{what}: {fast}, {slow}: {units.rate(high / low)} times slower{of}.",
        "" if unit == "samples/s" and over[0] != over[1] else caveat,
        Gravity.WARNING,
    )


def _network_of(run: Run, file: str) -> str:
    """`` over TCP on 2 hosts``, as the NCCL log in a file shows; else empty."""
    for recording in run.nccl:
        if set(recording.line_kinds["file"].astype(str)) == {file}:
            name, hosts = network_name(recording), recording.ranks["host"].nunique()
            return f" over {name} on {units.counted(hosts, 'host')}" if name and hosts else ""
    return ""

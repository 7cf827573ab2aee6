"""What several files say together: how a job scales, and how runs of one size differ."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from hvdprof import units
from hvdprof.analyze.files.nccl_facts import network_name
from hvdprof.analyze.scaling.iteration_series import estimates_of, iteration_series, notes_on
from hvdprof.analyze.scaling.scaling_verdict import scaling_verdicts
from hvdprof.analyze.scaling.throughput_scaling import throughput_scaling
from hvdprof.model.file_page import FileVerdict, Gravity
from hvdprof.model.notes import texts
from hvdprof.model.run import Run
from hvdprof.model.standalone_files import ScalingOfText
from hvdprof.model.tables.log_tables import THROUGHPUT, THROUGHPUT_SCALING
from hvdprof.model.tables.printed_tables import NCCL_TEST_RUNS, NCCL_TESTS, TRAINING_ITERATIONS

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


def table_of_throughputs(run: Run) -> pd.DataFrame:
    """THROUGHPUT_SCALING with a row for each throughput; repeats are one where they are the base.

    Args:
        run: Standalone files.
    """
    logs = estimates_of(iteration_series(run.table(TRAINING_ITERATIONS.name)))
    each = throughput_scaling(run.table(THROUGHPUT.name), logs=logs)
    pooled = scaling_of_run(run).scaling
    # The table has the baseline of the verdict.
    without = set(each.loc[each["baseline_np"].isna(), "series"]) & set(pooled["series"])
    return THROUGHPUT_SCALING.frame(
        [
            {str(name): row[name] for name in row}
            for rows in (
                each[~each["series"].isin(without)],
                pooled[pooled["series"].isin(without)],
            )
            for row in rows.to_dict("records")
        ]
    )


def joint_verdicts(run: Run) -> tuple[FileVerdict, ...]:
    """What the files say together, runs of one size that differ first; none of one file alone.

    Args:
        run: Standalone files.
    """
    compared = [*_throughputs(run), *_bandwidths(run)]
    throughput = run.table(THROUGHPUT.name)
    several = any(len(set(throughput[name])) > 1 for name in ("file", "series"))
    scaled = scaling_of_run(run).verdicts if several else ()
    return (*compared, *scaled)


def _throughputs(run: Run) -> Iterator[FileVerdict]:
    """Of files with one model, batch size and number of ranks, the fastest and the slowest."""
    rows = run.table(THROUGHPUT.name)
    rows = rows[(rows["samples_per_s"] > 0).to_numpy()]
    for (series, size), own in rows.groupby(["series", "np"], observed=True, sort=False):
        rates = own.groupby("file", observed=True)["samples_per_s"].mean().sort_values()
        if len(rates) < 2:
            continue
        over = {str(file): _network_of(run, str(file)) for file in rates.index}
        sentence, factor = _ends(
            [
                (units.of_unit(rate, "samples/s"), float(rate), str(file))
                for file, rate in rates.items()
            ],
            over,
        )
        lead = f"{series}, {units.counted(int(str(size)), 'rank')}: "
        caveat = "" if len(set(over.values())) > 1 else "The files do not show what differs."
        yield FileVerdict(
            f"{lead}{sentence}",
            caveat if factor >= _SLOWER else "",
            Gravity.WARNING if factor >= _SLOWER else Gravity.NONE,
        )


def _bandwidths(run: Run) -> Iterator[FileVerdict]:
    """Of nccl-tests of one operation and number of ranks, the bandwidths at their largest size."""
    runs, rows = run.table(NCCL_TEST_RUNS.name), run.table(NCCL_TESTS.name)
    known = runs[runs["np"].notna() & (runs["peak_busbw_gb_s"] > 0)]
    for (operation, size, device), own in known.groupby(
        ["operation", "np", "device"], observed=True
    ):
        files = [str(file) for file in dict.fromkeys(own["file"])]
        by_file = [
            rows[(rows["file"] == file).to_numpy()].groupby("size_bytes")["busbw_gb_s"].max()
            for file in files
        ]
        common = set.intersection(*(set(found.index) for found in by_file))
        if len(files) < 2 or len(own) > len(files) or not common:
            continue
        largest = max(common)
        rates = sorted(
            (float(found[largest]), file) for found, file in zip(by_file, files, strict=True)
        )
        if not rates[0][0] > 0:
            continue
        what = ", ".join(filter(None, (str(operation), str(device))))
        sentence, factor = _ends(
            [(units.of_unit(rate, "GB/s"), rate, file) for rate, file in rates],
            {file: _network_of(run, file) for file in files},
        )
        lead = f"{what}{', ' * bool(what)}{units.counted(int(str(size)), 'rank')}"
        yield FileVerdict(
            f"{lead}, {units.byte_size(largest)}: {sentence}",
            "" if operation else "The files do not name the operation.",
            Gravity.WARNING if factor >= _SLOWER else Gravity.NONE,
        )


def _ends(ascending: Sequence[tuple[str, float, str]], over: dict[str, str]) -> tuple[str, float]:
    """The slowest against the fastest, and by what factor it is slower."""
    (slow, low, last), (fast, high, first) = ascending[0], ascending[-1]
    number = len(ascending)
    of = f", slowest against fastest of {number} files" if number > 2 else ""
    factor = high / low
    if factor < _SLOWER:
        return (
            f"{slow} to {fast} in {len(ascending)} files: within {units.percent(factor - 1)}.",
            factor,
        )
    networks = [over[first], over[last]]
    places = [f" {text}" if text and networks[0] != networks[1] else "" for text in networks]
    return (
        f"{fast}{places[0]} ({Path(first).name}), {slow}{places[1]} ({Path(last).name}): "
        f"{units.rate(factor)} times slower{of}.",
        factor,
    )


def _network_of(run: Run, file: str) -> str:
    """``over TCP on 2 hosts``, as the NCCL log in a file shows; else empty."""
    for recording in run.nccl:
        if set(recording.line_kinds["file"].astype(str)) == {file} and (
            name := network_name(recording)
        ):
            hosts = recording.ranks["host"].nunique()
            return f"over {name}" + (f" on {units.counted(hosts, 'host')}" if hosts else "")
    return ""

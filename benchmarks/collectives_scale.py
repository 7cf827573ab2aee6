"""What collectives, overlap and step breakdown take on a large trace: time and memory.

``python benchmarks/collectives_scale.py [--events 1000000] [--ranks 8]`` makes the tables of one
launch up as the ingestion would hand them over (an execution of four tensors has 12 events in a
timeline), computes from them what an analysis does, and prints seconds, rows and peak memory. The
memory of the tables themselves is printed apart.
"""

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np
import pandas as pd

from hvdprof.analyze.communication.communication_tables import breakdown, overlap
from hvdprof.analyze.communication.matched_collectives import collectives
from hvdprof.analyze.communication.network import link_fit
from hvdprof.model.schema import Table
from hvdprof.model.tables.run_tables import EVENTS, STEPS
from hvdprof.model.tables.scaling_tables import JOB_STEPS
from hvdprof.model.tables.timeline_tables import EXECUTIONS, TENSOR_USES
from hvdprof.model.tables.waiting_tables import COLLECTIVE_ARRIVALS

LAUNCH = ("p", "s")
EVENTS_OF_AN_EXECUTION = 12
TENSORS_OF_AN_EXECUTION = 4
EXECUTIONS_OF_A_STEP = 40
STEP_NS = 100_000_000
SHARES = {"data": 2, "forward": 30, "backward": 58, "blocked": 5, "optimizer": 5}


def repeated(text: str, num_rows: int) -> "pd.Categorical[str]":
    """A column of one text."""
    return pd.Categorical.from_codes(np.zeros(num_rows, dtype=np.int8), pd.Index([text]))


def filled(declared: Table, num_rows: int, **known: object) -> pd.DataFrame:
    """A declared table of so many rows; what is not given is zero or empty."""
    blank = {"category": "", "str": "", "bool": False, "float64": np.nan}
    columns: dict[str, object] = {
        column.name: np.full(num_rows, blank.get(column.dtype, 0))
        if column.dtype != "category"
        else repeated("", num_rows)
        for column in declared.columns
    }
    for name, value in {"pass_id": LAUNCH[0], "segment": LAUNCH[1]}.items():
        columns[name] = repeated(value, num_rows)
    return declared.frame(columns | known)


def executions_of(num: int) -> pd.DataFrame:
    """Executions spread over the last two thirds of every step, some overlapping the next."""
    rng = np.random.default_rng(0)
    number = np.arange(num)
    step, place = np.divmod(number, EXECUTIONS_OF_A_STEP)
    size = (1000 * 2.0 ** rng.integers(0, 14, num)).astype(np.int64)
    length = (30_000 + size * 0.2 * rng.lognormal(0, 0.3, num)).astype(np.int64)
    start = step * STEP_NS + STEP_NS // 3 + place * (STEP_NS * 3 // 5 // EXECUTIONS_OF_A_STEP)
    return filled(
        EXECUTIONS,
        num,
        step=step,
        fusion_id=number,
        collective=repeated("ALLREDUCE", num),
        num_tensors=TENSORS_OF_AN_EXECUTION,
        size_bytes=size,
        start_ns=start,
        dur_ns=length,
        transfer_ns=length,
    )


def uses_of(executions: pd.DataFrame) -> pd.DataFrame:
    """Four tensors an execution."""
    number = np.repeat(executions["fusion_id"].to_numpy(), TENSORS_OF_AN_EXECUTION)
    start = np.repeat(executions["start_ns"].to_numpy(), TENSORS_OF_AN_EXECUTION)
    names = [f"t{one}" for one in range(EXECUTIONS_OF_A_STEP * TENSORS_OF_AN_EXECUTION)]
    return filled(
        TENSOR_USES,
        len(number),
        step=np.repeat(executions["step"].to_numpy(), TENSORS_OF_AN_EXECUTION),
        fusion_id=number,
        tensor=pd.Categorical.from_codes(np.arange(len(number)) % len(names), pd.Index(names)),
        negotiation_start_ns=start - 900_000,
        negotiation_ns=500_000,
    )


def steps_of(num_steps: int, num_ranks: int) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """STEPS, the recorder's rows of EVENTS, and JOB_STEPS."""
    step, rank = (
        np.repeat(np.arange(num_steps), num_ranks),
        np.tile(np.arange(num_ranks), num_steps),
    )
    parts = {f"{name}_ns": STEP_NS * share // 100 for name, share in SHARES.items()}
    start = step * STEP_NS
    parts |= {"num_steps": 1}
    steps = filled(STEPS, len(step), rank=rank, step=step, start_ns=start, dur_ns=STEP_NS, **parts)
    begins = np.cumsum([0, *SHARES.values()])[:-1] * STEP_NS // 100
    pieces = filled(
        EVENTS,
        len(step) * len(SHARES),
        source=repeated("recorder", len(step) * len(SHARES)),
        rank=np.repeat(rank, len(SHARES)),
        step=np.repeat(step, len(SHARES)),
        activity=pd.Categorical.from_codes(
            np.tile(np.arange(len(SHARES)), len(step)), pd.Index(list(SHARES))
        ),
        start_ns=np.repeat(start, len(SHARES)) + np.tile(begins, len(step)),
        dur_ns=np.tile([STEP_NS * share // 100 for share in SHARES.values()], len(step)),
    )
    of_job = {"step": np.arange(num_steps), "dur_ns": STEP_NS, "num_steps": 1, "steady": True}
    job_steps = filled(JOB_STEPS, num_steps, **of_job)
    return steps, pieces, job_steps


def timed(name: str, work: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """What ``work`` returns; prints its seconds."""
    begin = time.perf_counter()
    found = work()
    print(f"{name:12} {time.perf_counter() - begin:6.2f} s  {len(found):>9,} rows")
    return found


def main() -> None:
    """Make tables up and analyse them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--ranks", type=int, default=8)
    options = parser.parse_args()
    executions = executions_of(options.events // EVENTS_OF_AN_EXECUTION)
    uses = uses_of(executions)
    steps, pieces, job_steps = steps_of(int(executions["step"].max()) + 1, options.ranks)
    tables = (executions, uses, steps, pieces)
    held = sum(int(table.memory_usage(deep=True).sum()) for table in tables)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{options.events:,} events, {options.ranks} ranks, {len(job_steps):,} steps")
    ranks_of = {LAUNCH: options.ranks}
    nobody = COLLECTIVE_ARRIVALS.empty()
    found = timed("collectives", lambda: collectives(executions, uses, nobody, ranks_of, {}))
    timed("link_fit", lambda: link_fit(found, ranks_of))
    timed("overlap", lambda: overlap(steps, pieces, executions))
    timed("breakdown", lambda: breakdown(steps, job_steps))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"tables {held / 2**20:,.0f} MiB; peak {before / 1024:,.0f} MiB before the analysis,")
    print(f"{peak / 1024:,.0f} MiB after it")


if __name__ == "__main__":
    main()

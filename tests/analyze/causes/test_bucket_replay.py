import numpy as np
import pandas as pd
import pytest

from hvdprof.analyze.causes.bucket_replay import bucket_replays
from hvdprof.analyze.stragglers.arrivals import arrival_cubes, collective_arrivals
from hvdprof.model.tables.timeline_tables import EXECUTIONS, TENSOR_USES
from tests.builders.step_works import MS, arrivals_of, simulated

KEY = ("p", "s")
LAG_MS, COSTS_MS = 0.3, (2.0, 4.0)


def declared(table, rows):
    blank = {"category": "", "bool": False}
    filled = [{one.name: blank.get(one.dtype, 0) for one in table.columns} | row for row in rows]
    return table.frame(filled)


def chained_launch(noise_ms=0.0):
    """Two buckets a step, reduced one after the other; what is left of the tail is the last."""
    rng = np.random.default_rng(0)
    work = simulated(30, 2, noise=0.05, tail_ms=0)
    ready = np.stack([work.arrived - 20 * MS, work.arrived - 1 * MS], axis=1)
    uses, executions, tail = [], [], np.zeros(len(work.steps))
    for row, step in enumerate(work.steps):
        through = 0.0
        for bucket, cost in enumerate(COSTS_MS):
            lag = (LAG_MS + noise_ms * rng.random()) * MS
            start = max(ready[row, bucket].max(), through) + lag
            through = start + cost * MS
            names = {"pass_id": "p", "segment": "s", "step": step, "fusion_id": 2 * row + bucket}
            uses.append({**names, "tensor": f"t{bucket}"})
            executions.append({**names, "start_ns": round(start), "dur_ns": round(cost * MS)})
        tail[row] = through - work.arrived[row].max()
    fields = {name: getattr(work, name) for name in work.__slots__}
    # The simulation left no tail: give every step that of its last bucket, all later ones move.
    moved = np.concatenate([[0.0], np.cumsum(tail)[:-1]])[:, None]
    fields |= {"tail": np.repeat(tail[:, None], 2, axis=1)}
    fields |= {"begin": work.begin + moved, "arrived": work.arrived + moved}
    shifted = np.round(ready + moved[:, :, None])
    arrivals = arrivals_of(np.concatenate([shifted[:1], shifted]))
    table = declared(EXECUTIONS, executions)
    table["start_ns"] += np.repeat(moved[:, 0], 2).round().astype("int64")
    (cube,) = arrival_cubes(arrivals)
    return (
        {KEY: type(work)(**fields)},
        collective_arrivals(cube),
        declared(TENSOR_USES, uses),
        table,
    )


def test_steps_made_by_the_chain_are_replayed_exactly():
    row = bucket_replays(*chained_launch()).iloc[0]

    assert row["num_steps"] == 30
    assert row["error_p95"] < 1e-6
    assert row["replayed_ns"] == pytest.approx(row["step_time_ns"], rel=1e-6)


def test_what_one_lag_does_not_explain_is_the_error():
    row = bucket_replays(*chained_launch(noise_ms=4.0)).iloc[0]

    assert 0.001 < row["error_median"] < 0.05


def test_without_a_timeline_there_is_nothing_to_replay():
    works, arrivals, _, _ = chained_launch()

    assert bucket_replays(works, arrivals, TENSOR_USES.empty(), EXECUTIONS.empty()).empty
    assert isinstance(arrivals, pd.DataFrame)

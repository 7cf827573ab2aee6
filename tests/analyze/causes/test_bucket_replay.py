import numpy as np
import pandas as pd
import pytest

from hvdprof.analyze.causes.bucket_replay import bucket_replays
from hvdprof.analyze.ranks.arrivals import arrival_cubes, collective_arrivals
from hvdprof.model.tables.run_tables import EVENTS
from hvdprof.model.tables.timeline_tables import EXECUTIONS, TENSOR_USES
from tests.builders.step_works import MS, arrivals_of, simulated

KEY = ("p", "s")
LAG_MS, COSTS_MS = 0.3, (2.0, 4.0)


def declared(table, rows):
    blank = {"category": "", "bool": False}
    filled = [{one.name: blank.get(one.dtype, 0) for one in table.columns} | row for row in rows]
    return table.frame(filled)


def chained_launch(noise_ms=0.0, cycle_ms=0.0, late_rank=False):
    """Two buckets a step, reduced one after the other; what is left of the tail is the last.

    A bucket starts ``LAG_MS`` after the first cycle at which it is ready, and up to ``noise_ms``
    later. Cycles start every ``cycle_ms``, or after an execution; the marks of all are returned.
    Where ``late_rank``, the second bucket of every third step is ready while rank 0 waits for the
    other rank to agree.
    """
    rng = np.random.default_rng(0)
    work = simulated(30, 2, noise=0.05, tail_ms=0)
    ready = np.stack([work.arrived - 20 * MS, work.arrived - 1 * MS], axis=1)
    uses, executions, tail = [], [], np.zeros(len(work.steps))
    marks, phases = [], rng.random((len(work.steps), len(COSTS_MS))) * cycle_ms * MS
    for row, step in enumerate(work.steps):
        through = 0.0
        for bucket, cost in enumerate(COSTS_MS):
            lag = (LAG_MS + noise_ms * rng.random()) * MS
            moment = ready[row, bucket].max()
            waits = 0.0 if through > moment else phases[row, bucket]
            mark = max(moment + waits, through)
            if late_rank and bucket and not row % 3:
                ready[row, bucket] += mark + 0.2 * MS - moment
                mark, marks_at = ready[row, bucket].max(), mark
            else:
                marks_at = mark
            marks.append((row, marks_at))
            start = mark + lag
            through = start + cost * MS
            marks.append((row, through + 1000.0))
            names = {"pass_id": "p", "segment": "s", "step": step, "fusion_id": 2 * row + bucket}
            uses.append({**names, "tensor": f"t{bucket}"})
            executions.append({**names, "start_ns": round(start), "dur_ns": round(cost * MS)})
        tail[row] = through - work.arrived[row].max()
    fields = {name: getattr(work, name) for name in work.__slots__}
    # The simulation left no tail: give every step that of its last bucket, all later ones move.
    moved = np.concatenate([[0.0], np.cumsum(tail)[:-1]])[:, None]
    fields |= {"transfer": np.repeat(tail[:, None], 2, axis=1)}
    fields |= {"begin": work.begin + moved, "arrived": work.arrived + moved}
    shifted = np.round(ready + moved[:, :, None])
    arrivals = arrivals_of(np.concatenate([shifted[:1], shifted]))
    at = [moved[row, 0] + moment for row, moment in marks]
    table = declared(EXECUTIONS, executions)
    table["start_ns"] += np.repeat(moved[:, 0], 2).round().astype("int64")
    (cube,) = arrival_cubes(arrivals)
    return (
        {KEY: type(work)(**fields)},
        collective_arrivals(cube),
        declared(TENSOR_USES, uses),
        table,
        marked(at),
    )


def marked(moments_ns):
    row = {"pass_id": "p", "segment": "s", "activity": "CYCLE_START"}
    return declared(EVENTS, [{**row, "start_ns": round(moment)} for moment in moments_ns])


def without_marks(launch):
    return (*launch[:-1], EVENTS.empty())


def test_steps_made_by_the_chain_are_replayed_exactly():
    row = bucket_replays(*chained_launch()).iloc[0]

    assert row["num_steps"] == 30
    assert row["error_p95"] < 1e-6
    assert row["replayed_ns"] == pytest.approx(row["step_time_ns"], rel=1e-6)


def test_with_marks_the_phase_of_every_cycle_is_known():
    launch = chained_launch(cycle_ms=5.0)
    with_marks = bucket_replays(*launch).iloc[0]
    without = bucket_replays(*without_marks(launch)).iloc[0]

    assert (with_marks["phase"], without["phase"]) == ("marks", "uniform")
    assert with_marks["error_p95"] < 1e-6
    assert without["error_p95"] > 0.01
    # An unknown phase makes single steps wrong, but not their mean.
    assert without["replayed_ns"] == pytest.approx(without["step_time_ns"], rel=0.01)


def test_a_cycle_that_another_rank_starts_later_takes_what_is_ready_then():
    row = bucket_replays(*chained_launch(cycle_ms=5.0, late_rank=True)).iloc[0]

    assert row["error_p95"] < 1e-6


def test_what_one_negotiation_does_not_explain_is_the_error():
    row = bucket_replays(*chained_launch(noise_ms=4.0)).iloc[0]

    assert 0.001 < row["error_median"] < 0.05


def test_without_a_timeline_there_is_nothing_to_replay():
    works, arrivals, _, _, events = chained_launch()

    assert bucket_replays(works, arrivals, TENSOR_USES.empty(), EXECUTIONS.empty(), events).empty
    assert isinstance(arrivals, pd.DataFrame)

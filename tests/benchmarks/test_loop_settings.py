import numpy as np
import pytest

from benchmarks.loop_settings import Measured, costs, predictions, report
from hvdprof.analyze.predict.costs.gradient_trace import Gradients, GradientTrace
from hvdprof.analyze.predict.horovod_loop import LoopSettings

MS = 1e6


def launch(run, cycle_ms, own_ms, step_ms):
    """One gradient, ready 1 ms before the end of own work; collectives take 0.1 ms and 1 ns/B."""
    shape = (8, 2)
    own = np.full(shape, own_ms * MS)
    trace = GradientTrace(
        gradients=Gradients.of_sizes([1000]),
        ranks=np.arange(2),
        steps=np.arange(8),
        ready=np.full((8, 1, 2), (own_ms - 1) * MS),
        backward_begin=np.zeros(shape),
        arrived=own,
        after=np.zeros(shape),
        **dict.fromkeys(("forward", "backward", "data", "optimizer", "outside"), np.zeros(shape)),
        step_times=np.full(8, step_ms * MS),
    )
    sizes = np.repeat([1000.0, 2e6], 20)
    return Measured(
        run,
        "one",
        LoopSettings(cycle_ns=cycle_ms * MS),
        trace,
        sizes,
        0.1 * MS + sizes,
        np.full(5, 0.05 * MS),
        np.full(5, 0.08 * MS),
    )


def test_costs_are_those_of_the_collectives():
    drawn = costs([launch("a", 1, 10, 11)])

    assert drawn.alpha_ns[0] == pytest.approx(0.1 * MS, rel=0.01)
    assert drawn.beta_ns_per_byte[0] == pytest.approx(1.0, rel=0.01)
    assert drawn.negotiation_ns[0] == 0.05 * MS
    assert drawn.wakeups_ns[0] == pytest.approx(0.08 * MS)


def test_a_long_cycle_is_predicted_from_a_short_one():
    # Steps of 10 ms of own work move in step with cycles of 25 ms and a sleep of 0.08 ms more.
    short, long = launch("a", 1, 10, 10.5), launch("b", 25, 10, 25.08)
    found = {one.target.run: one for one in predictions([short, long])}

    assert found["b"].step_ns / MS == pytest.approx(25.08, abs=2.0)
    assert abs(found["b"].error) < 0.08
    assert "one: 2 predictions" in report(list(found.values()))


def test_launches_with_longer_own_work_are_left_out():
    launches = [launch("a", 1, 10, 11), launch("b", 5, 10, 15), launch("c", 25, 14, 25)]

    assert {one.target.run for one in predictions(launches)} == {"a", "b"}

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hvdprof.analyze.predict.horovod_loop import (
    LoopSettings,
    random_phase,
    rounded_threshold,
    simulate_loop,
)
from tests.builders.examples import examples

MS = 1e6
MB = 2**20


def cost_of(size):
    """0.1 ms per collective and 1 ns per byte."""
    return 0.1 * MS + size


def simulated(ready_ms, sizes, chosen=None, *, phase_ms=-0.25, dtypes=None):
    return simulate_loop(
        np.array([ready_ms], dtype=float) * MS,
        sizes,
        chosen or LoopSettings(),
        cost_ns=cost_of,
        cycle_start_ns=phase_ms * MS,
        dtype_codes=None if dtypes is None else np.array(dtypes),
    )


def literal(ready, sizes, dtypes, chosen, *, begin):
    """The loop of Horovod, cycle by cycle and gradient by gradient, for one draw."""
    pending = sorted(range(len(ready)), key=lambda i: ready[i])
    streams = [-math.inf] * chosen.num_streams
    stream, fusions, done = 0, [], []
    negotiation = chosen.negotiation_ns
    end = begin + negotiation
    while True:
        taken = [i for i in pending if ready[i] <= begin]
        pending = [i for i in pending if ready[i] > begin]
        for fusion in fuse(taken, sizes, dtypes, chosen.fusion_bytes):
            size = sum(sizes[i] for i in fusion)
            fusions.append(size)
            if streams:
                start = max(streams[stream], begin + negotiation)
                streams[stream] = start + cost_of(size)
                done.append(streams[stream])
                stream = (stream + 1) % len(streams)
            else:
                end += cost_of(size)
                done.append(end)
        if not pending:
            return max(done), fusions, begin
        planned = begin + chosen.cycle_ns
        begin = planned + chosen.wakeup_ns if end < planned else end
        end = begin + negotiation


def fuse(taken, sizes, dtypes, threshold):
    """FuseResponses of Horovod's controller.cc."""
    queue, fusions = list(taken), []
    while queue:
        first = queue.pop(0)
        fusion, size = [first], sizes[first]
        skipped, skipped_size = [], 0
        while queue:
            new = queue[0]
            if dtypes[new] == dtypes[first] and size + sizes[new] <= threshold:
                fusion.append(queue.pop(0))
                size += sizes[new]
            else:
                skipped_size += sizes[new]
                if size + skipped_size > threshold:
                    break
                skipped.append(queue.pop(0))
        queue = skipped + queue
        fusions.append(fusion)
    return fusions


@st.composite
def loops(draw):
    num = draw(st.integers(1, 9))
    # Multiples of an eighth are exact in floating point, as are their sums.
    eighths = st.integers(0, 400).map(lambda i: i / 8)
    per_gradient = {"min_size": num, "max_size": num}
    rows = draw(st.lists(st.lists(eighths, **per_gradient), min_size=1, max_size=3))
    return {
        "ready": np.array(rows) + 1.0,
        "sizes": np.array(draw(st.lists(st.integers(1, 40), **per_gradient)), dtype=float),
        "dtypes": np.array(draw(st.lists(st.integers(0, 2), **per_gradient))),
        "chosen": LoopSettings(
            cycle_ns=float(draw(st.sampled_from([1, 4, 32]))),
            fusion_bytes=draw(st.sampled_from([0, 30, 60, 1000])),
            wakeup_ns=draw(st.sampled_from([0.0, 0.5])),
            negotiation_ns=draw(st.sampled_from([0.0, 0.25, 2.0, 6.0])),
            num_streams=draw(st.sampled_from([0, 0, 1, 2])),
        ),
        "begin": -draw(eighths) / 8,
    }


@pytest.mark.heavy
@given(loops())
@settings(max_examples=examples(300))
def test_all_draws_end_where_the_literal_loop_ends(case):
    step = simulate_loop(
        case["ready"],
        case["sizes"],
        case["chosen"],
        cost_ns=cost_of,
        cycle_start_ns=case["begin"],
        dtype_codes=case["dtypes"],
    )

    for row, ready in enumerate(case["ready"]):
        end, fusions, begin = literal(
            ready,
            case["sizes"],
            case["dtypes"],
            case["chosen"],
            begin=case["begin"],
        )
        assert step.end_ns[row] == pytest.approx(end, rel=1e-9)
        assert step.num_executions[row] == len(fusions)
        assert step.parts.execution_ns[row] == pytest.approx(sum(map(cost_of, fusions)))
        assert step.last_cycle_ns[row] == pytest.approx(begin)
        exposed = step.exposed
        total = exposed.cycle_ns[row] + exposed.negotiation_ns[row] + exposed.execution_ns[row]
        assert total == pytest.approx(end - ready.max())
        assert min(exposed.cycle_ns[row], exposed.negotiation_ns[row]) >= 0


def test_a_gradient_waits_for_the_next_cycle():
    step = simulated([3.5], [0.2 * MS], LoopSettings(negotiation_ns=0.3 * MS))

    # Cycles start 0.25 ms before each whole millisecond.
    assert step.end_ns[0] / MS == pytest.approx(3.75 + 0.3 + 0.1 + 0.2)
    assert step.exposed.cycle_ns[0] / MS == pytest.approx(0.25)
    assert step.exposed.negotiation_ns[0] / MS == pytest.approx(0.3)
    assert step.exposed.execution_ns[0] / MS == pytest.approx(0.3)


def test_gradients_of_one_cycle_are_fused():
    assert simulated([3.1, 3.2, 3.3], [1.0, 1.0, 1.0]).num_executions[0] == 1


def test_threshold_zero_fuses_nothing():
    step = simulated([3.1, 3.2, 3.3], [1.0, 1.0, 1.0], LoopSettings(fusion_bytes=0))

    assert step.num_executions[0] == 3
    assert step.end_ns[0] == pytest.approx(3.75 * MS + 3 * cost_of(1.0))


def test_a_cycle_of_50_ms_takes_the_whole_backward_at_once():
    ready = np.linspace(1, 40, 30)

    step = simulated(ready, np.ones(30), LoopSettings(cycle_ns=50 * MS), phase_ms=-5)

    assert step.num_executions[0] == 1
    assert step.end_ns[0] == pytest.approx(45 * MS + cost_of(30.0))


def test_what_becomes_ready_during_an_execution_is_taken_right_after_it():
    step = simulated([0.5, 4.0, 5.0], [9 * MS, 1.0, 1.0])

    assert step.num_executions[0] == 2
    assert step.end_ns[0] == pytest.approx(0.75 * MS + cost_of(9 * MS) + cost_of(2.0))
    assert step.exposed.cycle_ns[0] == 0


def test_dtypes_are_fused_apart():
    step = simulated([3.1, 3.2, 3.3, 3.4], np.ones(4), dtypes=[0, 1, 0, 1])

    assert step.num_executions[0] == 2


def test_executions_on_a_stream_do_not_hold_up_the_loop():
    ready, sizes = [0.5, 1.5, 2.5], [9 * MS, 1.0, 1.0]
    one = simulated(ready, sizes, LoopSettings(num_streams=1))
    two = simulated(ready, sizes, LoopSettings(num_streams=2))

    assert one.num_executions[0] == 3
    assert one.end_ns[0] == pytest.approx(0.75 * MS + cost_of(9 * MS) + 2 * cost_of(1.0))
    # The second and third share the other stream only in turns: the third follows the first.
    assert two.end_ns[0] == pytest.approx(0.75 * MS + cost_of(9 * MS) + cost_of(1.0))


def test_an_unknown_phase_is_uniform_over_a_cycle():
    ready = np.full((4000, 1), 7.0 * MS)
    chosen = LoopSettings(wakeup_ns=0.2 * MS)

    step = simulate_loop(
        ready,
        [1.0],
        chosen,
        cost_ns=np.zeros_like,
        cycle_start_ns=random_phase(np.random.default_rng(3), ready, chosen),
    )

    waited = step.exposed.cycle_ns / MS
    assert waited.max() < 1.2
    assert np.quantile(waited, [0.25, 0.5, 0.75]) == pytest.approx([0.3, 0.6, 0.9], abs=0.04)


def test_the_threshold_is_rounded_as_horovod_does():
    assert rounded_threshold(64 * MB, 4) == 64 * MB
    assert rounded_threshold(1_000_000, 4) == 1_001_472
    assert rounded_threshold(0, 4) == 0


def test_settings_come_from_the_environment():
    chosen = LoopSettings.from_environment(
        {"HOROVOD_CYCLE_TIME": "2.5", "HOROVOD_FUSION_THRESHOLD": "1000"}, 2
    )

    assert (chosen.cycle_ns, chosen.fusion_bytes) == (2.5 * MS, 1024)
    assert LoopSettings.from_environment({}, 2) == LoopSettings(1.0 * MS, 128 * MB)

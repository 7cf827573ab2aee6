"""Which node of a step graph needs which, and how long each is."""

import pandas as pd

from hvdprof.model.tables.run_tables import EVENTS
from hvdprof.model.tables.timeline_tables import EXECUTIONS, TENSOR_USES
from hvdprof.report.chrome.trace_selection import select_pass
from hvdprof.report.step_graph import rank_graphs
from tests.builders.declared_rows import declared_rows
from tests.builders.traced_run import MS, PASS_ID, SEGMENT_ID, START_NS, part_rows, traced_run

STEP_NS = START_NS + 20 * MS
TENSORS = ("allreduce.fc.bias", "allreduce.fc.weight")
LAUNCH = {"pass_id": PASS_ID, "segment": SEGMENT_ID, "step": 1}


def _executions(*spans_ms):
    """One execution per tensor, or one of both where a single span is given."""
    return declared_rows(
        EXECUTIONS,
        *[
            {
                **LAUNCH,
                "fusion_id": number,
                "collective": "ALLREDUCE",
                "num_tensors": 2 // len(spans_ms),
                "size_bytes": 600 // len(spans_ms),
                "start_ns": STEP_NS + round(at * MS),
                "dur_ns": round(length * MS),
            }
            for number, (at, length) in enumerate(spans_ms)
        ],
    )


def _uses(*numbers):
    return declared_rows(
        TENSOR_USES,
        *[
            {**LAUNCH, "tensor": tensor, "fusion_id": number, "collective": "ALLREDUCE"}
            for tensor, number in zip(TENSORS, numbers, strict=True)
        ],
    )


def _graph(**tables):
    run = traced_run(**tables)
    return rank_graphs(run, select_pass(run))


def test_a_fused_collective_needs_all_its_gradients_and_the_update_needs_it():
    graphs = _graph(executions=_executions((14.6, 3.2)), tensor_uses=_uses(0, 0))
    assert list(graphs) == [0, 1]
    described = [
        (node.name, (node.start_ns - STEP_NS) / MS, node.dur_ns / MS, node.needs)
        for node in graphs[0]
    ]
    assert described == [
        ("step 1 data", 0.0, 1.0, ()),
        ("step 1 forward", 1.0, 6.0, (0,)),
        ("step 1 backward to allreduce.fc.bias", 7.0, 1.0, (1,)),
        ("step 1 backward to allreduce.fc.weight", 8.0, 1.0, (2,)),
        ("step 1 backward", 9.0, 6.0, (3,)),
        # The last gradient of any rank is ready at 9 ms.
        ("step 1 ALLREDUCE 0 negotiation", 9.0, 5.6, (3,)),
        ("step 1 ALLREDUCE 0", 14.6, 3.2, (5,)),
        ("step 1 optimizer", 19.0, 1.0, (4, 6)),
    ]
    assert [node.on_cpu for node in graphs[0]] == [False] * 5 + [True, False, False]
    assert (graphs[0][6].collective, graphs[0][6].size_bytes) == ("ALLREDUCE", 600)


def test_collectives_run_one_after_the_other():
    graphs = _graph(executions=_executions((9.5, 2.0), (12.0, 3.0)), tensor_uses=_uses(0, 1))
    nodes = {node.name: node for node in graphs[1]}
    first, second = nodes["step 1 ALLREDUCE 0"], nodes["step 1 ALLREDUCE 1"]
    lag = nodes["step 1 ALLREDUCE 1 negotiation"]
    # Its gradient at 9 ms was ready long before the first execution ended at 11.5 ms.
    assert lag.needs == (nodes["step 1 backward to allreduce.fc.weight"].id, first.id)
    assert (lag.dur_ns, lag.start_ns - STEP_NS) == (0.5 * MS, 11.5 * MS)
    assert second.needs == (lag.id,)
    assert second.id in nodes["step 1 optimizer"].needs


def test_without_phases_a_step_is_cut_where_gradients_are_ready():
    graphs = _graph(
        executions=_executions((14.6, 3.2)),
        tensor_uses=_uses(0, 0),
        events=EVENTS.frame([row for row in part_rows(0, 1) if row["activity"] == "none"]),
    )
    names = [node.name for node in graphs[0]]
    assert names[:2] == [
        "step 1 backward to allreduce.fc.bias",
        "step 1 backward to allreduce.fc.weight",
    ]
    update = graphs[0][-1]
    # What follows the last collective is the rank's own.
    assert update.name == "step 1 optimizer"
    assert update.dur_ns / MS == 2.2


def test_executions_without_a_known_size_are_left_out():
    executions = _executions((9.5, 2.0), (12.0, 3.0))
    executions.loc[0, "size_bytes"] = pd.NA
    graphs = _graph(executions=executions, tensor_uses=_uses(0, 1))
    assert [node.size_bytes for node in graphs[0] if node.collective] == [300]

import numpy as np
import pytest

from hvdprof.figures.cycles import cycle_times
from hvdprof.figures.negotiation import negotiation_times
from hvdprof.model.tables.run_tables import EVENTS
from hvdprof.model.tables.timeline_tables import TENSOR_USES
from tests.builders.traced_run import event_row


def use_row(negotiation_ms, collective="ALLREDUCE", warmup=False):
    return {
        "pass_id": "p",
        "segment": "s",
        "step": 1,
        "tensor": "t",
        "occurrence": 0,
        "collective": collective,
        "fusion_id": 0,
        "negotiation_start_ns": 0,
        "negotiation_ns": None if negotiation_ms is None else round(negotiation_ms * 1e6),
        "start_ns": 0,
        "dur_ns": 1,
        "size_bytes": 4,
        "dtype": "float32",
        "num_ticks": 0,
        "first_rank": None,
        "last_rank": None,
        "last_after_ns": None,
        "warmup": warmup,
        "clock_error_ns": 0,
    }


def test_a_line_a_collective_without_warmup_and_unknown_ends():
    rows = [use_row(1.0), use_row(2.0), use_row(0.0), use_row(None), use_row(9.0, warmup=True)]
    figure = negotiation_times(TENSOR_USES.frame([*rows, use_row(5.0, "BROADCAST")]))
    counts = {line.name: int(np.sum(line.y)) for line in figure.data}
    assert counts == {"ALLREDUCE": 3, "BROADCAST": 1}


def test_no_timeline_is_said():
    assert (
        "holds a negotiation" in negotiation_times(TENSOR_USES.empty()).layout.annotations[0].text
    )


def test_cycles_are_from_mark_to_mark():
    marks = [event_row("mark", "CYCLE_START", at_ms, 0) for at_ms in (0.0, 1.0, 3.0)]
    line = cycle_times(EVENTS.frame(marks)).data[0]
    assert int(np.sum(line.y)) == 2
    filled = [edge for edge, count in zip(line.x, line.y, strict=True) if count]
    assert filled[0] == pytest.approx(1.0)


def test_without_marks_the_variable_is_named():
    figure = cycle_times(EVENTS.empty())
    assert "HOROVOD_TIMELINE_MARK_CYCLES" in figure.layout.annotations[0].text

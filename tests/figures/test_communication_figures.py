import numpy as np
import pytest

from hvdprof.figures import communication_figures as module
from hvdprof.figures.communication_figures import (
    cycle_times,
    fusion_fill,
    messages_per_step,
    negotiation_times,
    overlap_per_step,
)
from hvdprof.figures.palette import COVER_COLOURS
from hvdprof.model.tables.collective_tables import COLLECTIVES, OVERLAP
from hvdprof.model.tables.run_tables import EVENTS
from hvdprof.model.tables.timeline_tables import TENSOR_USES
from tests.builders.collectives import collective_row
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


def executions(*rows):
    return COLLECTIVES.frame(list(rows)) if rows else COLLECTIVES.empty()


@pytest.mark.slow
def test_fill_is_counted_by_collective_without_warmup():
    figure = fusion_fill(
        executions(
            collective_row(100, 1.0, fill=0.5),
            collective_row(100, 1.0, fill=0.9),
            collective_row(100, 1.0, fill=0.9, warmup=True),
            collective_row(100, 1.0, fill=0.1, collective="ADASUM"),
        )
    )
    assert {line.name: int(np.sum(line.y)) for line in figure.data} == {"ADASUM": 1, "ALLREDUCE": 2}


def test_an_unknown_threshold_is_reported():
    assert (
        "not known" in fusion_fill(executions(collective_row(100, 1.0))).layout.annotations[0].text
    )


def test_executions_and_tensors_of_each_step():
    rows = [collective_row(100, 1.0, step=step, num_tensors=4) for step in (3, 3, 4, 5)]
    messages, tensors = messages_per_step(executions(*rows, collective_row(1, 1.0, step=-1))).data
    assert list(messages.x) == [3, 4, 5]
    assert list(messages.y) == [2, 1, 1]
    assert list(tensors.y) == [8, 4, 4]
    assert tensors.name == "tensors in them, mean 5.33 per step"


def test_many_steps_are_binned_and_the_axis_says_so(monkeypatch):
    monkeypatch.setattr(module, "_MOST_STEPS", 5)
    rows = [collective_row(100, 1.0, step=step) for step in range(50)]
    figure = messages_per_step(executions(*rows))
    assert len(figure.data[0].x) == 5
    assert figure.layout.xaxis.title.text == "step (means of 50 steps in 5)"


@pytest.mark.heavy
@pytest.mark.parametrize("draw", [fusion_fill, messages_per_step])
def test_without_rows_it_says_so(draw):
    assert draw(executions()).layout.annotations[0].text


def overlap_row(rank, step, communication_ms, overlapped_ms, blocking_ms):
    return {
        "pass_id": "p",
        "segment": "s",
        "rank": rank,
        "step": step,
        "communication_ns": round(communication_ms * 1e6),
        "overlapped_ns": round(overlapped_ms * 1e6),
        "exposed_ns": round((communication_ms - overlapped_ms) * 1e6),
        "blocking_exposed_ns": round(blocking_ms * 1e6),
    }


def test_the_three_parts_sum_to_communication_as_means_over_ranks():
    rows = [overlap_row(0, 5, 10.0, 6.0, 3.0), overlap_row(1, 5, 10.0, 2.0, 8.0)]
    areas = overlap_per_step(OVERLAP.frame(rows)).data
    by_colour = {area.fillcolor: area.y[0] for area in areas}
    assert len(by_colour) == len(COVER_COLOURS)
    assert [area.y[0] for area in areas] == pytest.approx([4.0, 5.5, 0.5])
    assert areas[0].name == "overlapped by computation: 40 %"


def test_a_step_without_communication_has_no_share():
    area = overlap_per_step(OVERLAP.frame([overlap_row(0, 5, 0.0, 0.0, 0.0)])).data[0]
    assert area.name.endswith(": -")


def test_without_rows_it_says_what_it_takes():
    assert "timeline" in overlap_per_step(OVERLAP.empty()).layout.annotations[0].text

import numpy as np
import pytest

from hvdprof.figures import fusion_figure as module
from hvdprof.figures.fusion_figure import fusion_fill, messages_per_step
from hvdprof.model.tables.collective_tables import COLLECTIVES
from tests.builders.collectives import collective_row


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

import numpy as np
import pytest

from hvdprof.figures import lateness_map as module
from hvdprof.figures.lateness_map import lateness_map
from hvdprof.model.tables.waiting_tables import LATENESS
from tests.builders.analysis import analysis_of
from tests.builders.run_directory import PassSpec, SegmentSpec

NUM_STEPS = 62


def straggler_run(folder, num_ranks=3, straggler=2):
    """One rank needs 4 ms more in forward in every step; the others wait for it."""
    forward = np.full((num_ranks, NUM_STEPS), 10.0)
    forward[straggler] += 4.0
    segment = SegmentSpec(
        parts_ms={"forward": forward, "backward": 5.0, "blocked": 15.0 - forward + 1.0}
    )
    return analysis_of(folder, [PassSpec(size=num_ranks, segments=[segment])])


@pytest.mark.heavy
def test_the_straggler_has_its_injected_delay(tmp_path):
    figure = lateness_map(straggler_run(tmp_path / "run").table("lateness"))
    cells = figure.data[0]
    assert list(cells.y) == [0, 1, 2]
    assert np.asarray(cells.z)[2] == pytest.approx(4.0, abs=1e-3)
    assert np.asarray(cells.z)[0] == pytest.approx(-2.0, abs=1e-3)
    assert (cells.zmin, cells.zmax) == (-cells.zmax, pytest.approx(4.0, abs=0.1))
    assert figure.layout.xaxis.title.text == "step"


@pytest.mark.slow
def test_many_steps_are_binned_and_the_axis_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MOST_STEPS", 20)
    figure = lateness_map(straggler_run(tmp_path / "run").table("lateness"))
    assert np.asarray(figure.data[0].z).shape == (3, 20)
    assert "binned" in figure.layout.xaxis.title.text
    assert "in 20, the largest of each" in figure.layout.xaxis.title.text


def test_without_recordings_it_says_so():
    figure = lateness_map(LATENESS.empty())
    assert "No launch" in figure.layout.annotations[0].text

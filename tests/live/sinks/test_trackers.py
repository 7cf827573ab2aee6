"""Event files, read back by TensorBoard's own reader."""

import pytest

from hvdprof.live.flat_figures import flat_figures
from hvdprof.live.sinks.trackers import FOLDER, TensorboardFiles
from tests.builders.watched_job import event, snapshot

pytest.importorskip("tensorboard", reason="no TensorBoard (extra tensorboard)")


@pytest.mark.filterwarnings("ignore")
def test_scalars_and_texts_are_read_back(tmp_path):
    sink = TensorboardFiles(tmp_path)
    sink.show(snapshot(step=1, step_s=0.1))
    sink.show(snapshot(step=2, step_s=0.2))
    sink.report(event(text="*rank 3* <b>"))
    sink.close()
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(tmp_path / FOLDER))
    read.Reload()
    assert set(read.Tags()["scalars"]) == set(flat_figures(snapshot()))
    steps = read.Scalars("hvdprof/step_seconds")
    assert [(one.step, round(one.value, 6), one.wall_time) for one in steps] == [
        (1, 0.1, 1_795_800_000.25),
        (2, 0.2, 1_795_800_000.25),
    ]
    [text] = read.Tensors("hvdprof/events")
    assert text.step == 118
    assert text.tensor_proto.string_val[0] == b"    *rank 3* <b>"

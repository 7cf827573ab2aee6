"""An unmodified script of two real ranks that makes every kind of call to Horovod."""

import itertools
import sys

import pytest

from hvdprof.collect.auto.startup import FOLDER
from hvdprof.rundir.launch_format import AUTORECORD, AutoSettings
from tests.builders.places import LEAN_START, ROOT
from tests.builders.recorded import of_kind, recorded, steps_of
from tests.builders.training_job import mpirun, run_ranks

pytestmark = [pytest.mark.horovod, pytest.mark.warm]

SCRIPT = str(ROOT / "tests" / "builders" / "every_call.py")
SETTINGS = AutoSettings(
    num_warmup_steps=1, num_steps=None, batch_size=None, timeline="", num_timeline_steps=1
)


@pytest.mark.parametrize("option", ["", "sparse_as_dense"])
def test_every_call_does_what_it_does_without_hvdprof_and_waits_count_once(tmp_path, option):
    ended = run_ranks(
        [*mpirun(2), sys.executable, SCRIPT, option],
        tmp_path,
        PYTHONPATH=f"{FOLDER}:{LEAN_START}:{ROOT}",
        **{AUTORECORD: SETTINGS.to_text()},
    )

    assert (ended.exit_code, ended.stdout.count("trained")) == (0, 2), ended.stderr
    for rank in (0, 1):
        lines = recorded(ended.paths.recorder_file(rank))
        assert of_kind(lines, "problem") == []
        assert lines[-1]["kind"] == "end"
        steps = steps_of(lines, "main")
        assert len(steps) == 4
        for step in steps:
            assert -1 not in step["ready"]
            for pieces in (step["blocked"], [piece[1:] for piece in step["phases"]]):
                ordered = sorted(pieces)
                assert all(
                    begin + length <= after
                    for (begin, length), (after, _) in itertools.pairwise(ordered)
                )
        # Within forward and, by autograd, within backward.
        for step in steps:
            names = [name for name, _, _ in step["phases"]]
            assert {"forward", "collective", "backward", "optimizer"} <= set(names)
            backward = [i for i, name in enumerate(names) if name == "backward"]
            assert names[backward[0] + 1] == "collective"

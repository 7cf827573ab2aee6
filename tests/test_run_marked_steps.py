"""`hvdprof run` on a script without a distributed optimizer that marks its steps itself."""

import pytest

from hvdprof.api import analyze_run, load_run
from tests.builders import marked_script
from tests.builders.running_command import hvdprof

pytestmark = [pytest.mark.horovod, pytest.mark.warm, pytest.mark.timeout(600)]


def test_warmup_number_of_steps_and_timeline_hold_for_marked_steps(tmp_path):
    folder = tmp_path / "run"
    options = ["-np", "2", "--num-steps", "20", "--num-warmup-batches", "4", "--timeline-steps=9"]
    script = ("--", "python", marked_script.__file__)
    ended = hvdprof("run", "-q", "-o", str(folder), *options, *script)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    read = load_run(folder)
    steps = read.steps[read.steps["pass_id"].astype(str).str.contains("throughput")]
    assert steps.groupby("rank").size().tolist() == [24, 24]
    assert steps.groupby("rank")["warmup"].sum().tolist() == [4, 4]
    assert set(steps["samples"]) == {marked_script.BATCH}
    # The first update shows the recorder which model the script trains.
    seen = steps[steps["step"] > 0]
    for part in ("data", "blocked", "forward", "backward", "optimizer"):
        assert (seen[f"{part}_ns"] > 0).all(), part
    traced = analyze_run(read).table("collectives")
    assert set(traced.loc[traced["step"] >= 0, "step"]) == set(range(4, 13))

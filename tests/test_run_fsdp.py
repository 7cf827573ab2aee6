"""`hvdprof run` on an unmodified FSDP2 script: every wait is recorded, and no rank is accused."""

import pytest

from hvdprof.api import analyze_run, launch_title, load_run
from tests.builders import fsdp_script
from tests.builders.running_command import hvdprof

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(600)]


@pytest.mark.ran(
    "`hvdprof run` of an FSDP2 script by `torchrun`",
    "torch 2.13 with Gloo",
    "one host, 2 ranks",
)
def test_a_clean_run_below_torchrun_is_recorded_whole_and_accuses_no_rank(tmp_path):
    options = ("-q", "--no-trace", "--num-steps", "25", "--num-warmup-batches", "3")
    work = ("--times", "10")
    launch = ("--", "torchrun", "--nproc-per-node", "2", fsdp_script.__file__, *work)
    # What takes a core for a quarter of a step makes a rank late for certain: of the 20 ms of the
    # script, a few slices of another process do.
    ended = hvdprof("run", *options, "-o", str(tmp_path / "run"), *launch)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    analysis = analyze_run(load_run(tmp_path / "run"))

    assert "straggler" not in analysis.verdict.sentence, analysis.verdict.sentence
    (record,) = analysis.run.manifest.passes
    assert launch_title(record) == "2 ranks, FSDP2, throughput, repeat 1"
    table = analysis.table("stragglers")
    assert set(table["pattern"]) <= {"none", "rotating"}
    waits = analysis.run.table("waits")
    kinds = waits.groupby(["rank", "kind"], observed=True).size().unstack()
    steps = analysis.run.steps.groupby("rank").size()
    # Three blocks, and what is left in the root.
    assert kinds["unshard_forward"].tolist() == (4 * steps).tolist()
    assert kinds["reduce_scatter"].tolist() == (4 * steps).tolist()
    assert (kinds["unshard_backward"] > 2 * steps).all()
    assert (waits["num_ranks"] == 2).all()
    gradients = analysis.run.gradients
    assert "0.linear.weight" in set(gradients["tensor"].astype(str))

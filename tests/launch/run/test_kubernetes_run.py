import pytest

from hvdprof.api.options import KNOWN_MODELS
from hvdprof.errors import UsageError
from hvdprof.launch.plan.bench_options import BenchOptions
from hvdprof.launch.plan.run_options import MPIJOB, TRAINJOB, KubernetesOptions, RunOptions
from hvdprof.launch.run.kubernetes_run import kubernetes_job

PLACE = {"kind": MPIJOB, "image": "train:1", "claim": "runs"}
SCRIPT = ("python", "only/in/the/image.py")


def made(options, display=(), **place):
    return kubernetes_job(
        options, KubernetesOptions(**(PLACE | place)), KNOWN_MODELS, display=display
    )


def test_a_script_that_only_the_image_has():
    options = RunOptions(np="1,4", light=True, command=SCRIPT, output="a/b", num_threads=2)
    job = made(options, display=["--watch"], pod_ranks=2)
    assert list(job.command) == [
        *("hvdprof", "run", "--output", "/hvdprof/a/b", "--watch"),
        *("--np", "1,4", "--num-threads", "2", "--light", "--", *SCRIPT),
    ]
    assert (job.num_ranks, job.pod_ranks, job.rank_cores, job.name) == (4, 2, 2, "image")


def test_ranks_in_one_pod_are_started_by_torchrun_unless_another_launcher_is_named():
    job = made(RunOptions(np=2, command=SCRIPT), kind=TRAINJOB)
    assert "torchrun" in job.command
    job = made(RunOptions(np=2, command=SCRIPT, launcher="mpirun"), kind=TRAINJOB)
    assert "torchrun" not in job.command


def test_reference_models():
    job = made(BenchOptions(np="1,2", models=("mnist",)))
    assert list(job.command[:3]) == ["hvdprof", "bench", "--output"]
    assert job.num_ranks == 2


@pytest.mark.parametrize(
    ("options", "place", "message"),
    [
        (RunOptions(np=2, command=SCRIPT), {"image": None}, "needs --image"),
        (RunOptions(np=2, command=SCRIPT), {"claim": None}, "needs --claim"),
        (RunOptions(np=2, command=SCRIPT), {"claim": "my runs"}, "not a name of Kubernetes"),
        (RunOptions(np=2, command=SCRIPT), {"pod_ranks": 0}, "--pod-ranks"),
        (RunOptions(np=2, command=SCRIPT), {"kind": "pod"}, "--kubernetes pod"),
        (RunOptions(np=2, command=SCRIPT, hosts="a:2"), {}, "its pods"),
        (RunOptions(np=2, command=SCRIPT, launcher="srun"), {}, "Slurm"),
        (RunOptions(np=2, command=SCRIPT, launcher="jsrun"), {}, "jsrun is of another system"),
        (RunOptions(np=2, command=SCRIPT, output="/tmp/a"), {}, "outside the volume"),
        (RunOptions(np="two", command=SCRIPT), {}, "two"),
        (RunOptions(np=2), {}, "Missing: the script"),
        (
            RunOptions(np=2, command=SCRIPT, host_discovery_script="./hosts", min_np=1),
            {},
            "elastic",
        ),
        (BenchOptions(), {}, "not given"),
    ],
)
def test_what_cannot_be_used_is_refused(options, place, message):
    with pytest.raises(UsageError, match=message):
        made(options, **place)

"""`--kubernetes` as users call it: the manifest alone is printed, and nothing is written."""

import pytest

from tests.builders.running_command import hvdprof

pytestmark = pytest.mark.slow

PLACE = ("--image", "train:1", "--claim", "runs")
TRAIN = ("--", "python", "train.py", "--lr", "0.1")


def test_a_manifest_with_figures_for_prometheus(tmp_path):
    words = ("--light", "--watch", "--metrics-port", "9402", "--np", "1,2")
    done = hvdprof("run", "--kubernetes", "mpijob", *PLACE, *words, *TRAIN, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\n")
    assert "--metrics-port 9402 --metrics-host 0.0.0.0 --watch --np 1,2 --light" in done.stdout
    assert 'prometheus.io/port: "9402"' in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--sbatch", *PLACE), "exclude each other"),
        ((), "needs --image and --claim"),
        (("--resume", "runs/a", *PLACE), "--resume"),
    ],
)
def test_what_does_not_go_together(tmp_path, words, message):
    done = hvdprof("run", "--kubernetes", "trainjob", "--np", "2", *words, *TRAIN, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stdout == ""

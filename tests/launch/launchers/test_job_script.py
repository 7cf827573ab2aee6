"""The manifests hold fields of the operators' published types alone, and are YAML.

The tables are written down from the types, and name their source. Below a mapping of free names
(`*`) stands what each value has; an empty table is a value.
"""

import shlex
import subprocess

import pytest

from hvdprof.launch.launchers.job_script import LONGEST_NAME, KubernetesJob
from hvdprof.launch.plan.run_options import MPIJOB, TRAINJOB

VALUE = {}
# Kubernetes' core/v1: Volume, VolumeMount, Probe, ResourceRequirements, ObjectMeta.
MOUNT = {"name": VALUE, "mountPath": VALUE}
VOLUME = {
    "name": VALUE,
    "persistentVolumeClaim": {"claimName": VALUE, "readOnly": VALUE},
    "emptyDir": {"medium": VALUE, "sizeLimit": VALUE},
}
RESOURCES = {"limits": {"*": VALUE}, "requests": {"*": VALUE}}
METADATA = {"name": VALUE, "namespace": VALUE, "annotations": {"*": VALUE}, "labels": {"*": VALUE}}
CONTAINER = {
    "name": VALUE,
    "image": VALUE,
    "command": VALUE,
    "args": VALUE,
    "readinessProbe": {"tcpSocket": {"port": VALUE}},
    "resources": RESOURCES,
    "volumeMounts": MOUNT,
}
POD = {"metadata": METADATA, "spec": {"containers": CONTAINER, "volumes": VOLUME}}
REPLICA = {"replicas": VALUE, "restartPolicy": VALUE, "template": POD}

# kubeflow/mpi-operator: sdk/python/v2beta1/docs/V2beta1MPIJobSpec.md, and for RunPolicy
# pkg/apis/kubeflow/v2beta1/types.go of 013fa15b22a60180c99f5111a904b60099828f89.
MPI_JOB = {
    "apiVersion": VALUE,
    "kind": VALUE,
    "metadata": METADATA,
    "spec": {
        "slotsPerWorker": VALUE,
        "launcherCreationPolicy": VALUE,
        "mpiImplementation": VALUE,
        "runLauncherAsWorker": VALUE,
        "sshAuthMountPath": VALUE,
        "runPolicy": {
            "cleanPodPolicy": VALUE,
            "ttlSecondsAfterFinished": VALUE,
            "activeDeadlineSeconds": VALUE,
            "backoffLimit": VALUE,
            "suspend": VALUE,
        },
        "mpiReplicaSpecs": {"Launcher": REPLICA, "Worker": REPLICA},
    },
}

# kubeflow/trainer: pkg/apis/trainer/v1alpha1/trainjob_types.go of
# 0015772c282d9e127c9a08330485ef84b4fb3840.
PATCHED_POD = {
    "metadata": METADATA,
    "spec": {
        "volumes": VOLUME,
        "containers": {"name": VALUE, "env": VALUE, "volumeMounts": MOUNT},
        "nodeSelector": {"*": VALUE},
    },
}
PATCHED_JOB = {"name": VALUE, "template": {"spec": {"template": PATCHED_POD}}}
TRAIN_JOB = {
    "apiVersion": VALUE,
    "kind": VALUE,
    "metadata": METADATA,
    "spec": {
        "runtimeRef": {"name": VALUE, "apiGroup": VALUE, "kind": VALUE},
        "trainer": {
            "image": VALUE,
            "command": VALUE,
            "args": VALUE,
            "env": VALUE,
            "numNodes": VALUE,
            "resourcesPerNode": RESOURCES,
            "numProcPerNode": VALUE,
        },
        "runtimePatches": {
            "manager": VALUE,
            "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": PATCHED_JOB}}},
        },
        "suspend": VALUE,
    },
}


def job(kind, **values):
    default = {
        "kind": kind,
        "command": ("hvdprof", "run", "--output", "/hvdprof/a", "--", "python", "train.py", "$(A)"),
        "name": "train",
        "num_ranks": 5,
        "pod_ranks": 2,
        "rank_cores": 3,
        "has_gpus": False,
        "image": "registry.example/train:1",
        "claim": "runs",
        "namespace": "",
        "metrics_port": None,
    }
    return KubernetesJob(**(default | values))


def unknown(value, known, place=""):
    if isinstance(value, list):
        return [one for item in value for one in unknown(item, known, place)]
    if not isinstance(value, dict):
        return []
    found = []
    for key, item in value.items():
        if key not in known and "*" not in known:
            found.append(f"{place}.{key}")
        else:
            found += unknown(item, known.get(key, known.get("*", VALUE)), f"{place}.{key}")
    return found


@pytest.mark.parametrize(("kind", "known"), [(MPIJOB, MPI_JOB), (TRAINJOB, TRAIN_JOB)])
@pytest.mark.parametrize(
    "values", [{}, {"has_gpus": True, "namespace": "ml", "metrics_port": 9402}]
)
def test_every_field_is_one_of_the_published_types(kind, known, values):
    assert unknown(job(kind, **values).manifest(), known) == []


def test_a_field_that_is_not_published_is_found():
    assert unknown({"spec": {"slots": 1}}, MPI_JOB) == [".spec.slots"]
    in_list = {"spec": {"runtimePatches": [{"manger": "a"}]}}
    assert unknown(in_list, TRAIN_JOB) == [".spec.runtimePatches.manger"]


@pytest.mark.parametrize("kind", [MPIJOB, TRAINJOB])
def test_the_text_is_yaml_of_the_manifest(kind):
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extra bench")
    one = job(kind, has_gpus=True, namespace="on", metrics_port=9402, claim="1e3")
    assert yaml.safe_load(one.text()) == one.manifest()


def test_an_mpi_job_has_as_many_pods_as_its_ranks_need():
    spec = job(MPIJOB, has_gpus=True).manifest()["spec"]
    worker = spec["mpiReplicaSpecs"]["Worker"]
    assert (spec["slotsPerWorker"], worker["replicas"]) == (2, 3)
    (container,) = worker["template"]["spec"]["containers"]
    assert container["resources"] == {"limits": {"cpu": 6, "nvidia.com/gpu": 2}}


@pytest.mark.parametrize(
    "hostfile",
    [
        "a-worker-0.a.ml.svc slots=2\na-worker-1.a.ml.svc slots=2\n",
        "a-worker-0.a.ml.svc:2\na-worker-1.a.ml.svc:2\n",
    ],
)
def test_the_launcher_reads_the_hosts_that_the_operator_wrote(tmp_path, hostfile):
    spec = job(MPIJOB).manifest()["spec"]
    (launcher,) = spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    shell, option, line = launcher["command"]
    assert (shell, option) == ("/bin/sh", "-c")
    (tmp_path / "hostfile").write_text(hostfile)
    # What Kubernetes makes of $$, and the program and the file of this test.
    line = line.replace("$$", "$").replace("exec hvdprof", "printf '%s\\n'")
    line = line.replace("/etc/mpi/hostfile", shlex.quote(str(tmp_path / "hostfile")))
    words = subprocess.run([shell, "-c", line], check=True, capture_output=True, text=True).stdout
    assert words.splitlines() == [
        *("run", "--hosts", "a-worker-0.a.ml.svc:2,a-worker-1.a.ml.svc:2"),
        *("--output", "/hvdprof/a", "--", "python", "train.py", "$(A)"),
    ]


def test_a_train_job_has_all_ranks_in_one_pod():
    trainer = job(TRAINJOB).manifest()["spec"]["trainer"]
    assert trainer["numNodes"] == 1
    assert trainer["resourcesPerNode"] == {"limits": {"cpu": 15}}
    # Kubernetes would replace the variable A.
    assert trainer["command"][-1] == "$$(A)"


@pytest.mark.parametrize(
    ("name", "expected"), [("My_Train.v2", "hvdprof-my-train-v2"), ("x" * 90, None), ("___", None)]
)
def test_a_job_has_a_name_of_dns(name, expected):
    found = job(MPIJOB, name=name).job_name
    assert expected in (None, found)
    assert len(found) <= LONGEST_NAME
    assert found.strip("-") == found

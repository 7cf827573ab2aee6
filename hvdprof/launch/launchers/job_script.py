"""A measurement as a job of a cluster: a script for Slurm's queue, a manifest of Kubernetes."""

import json
import math
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.launch.plan.run_options import MPIJOB
from hvdprof.rundir.json_codec import JsonObject

MOUNT = "/hvdprof"
"""Where the pods see the volume that keeps the run directory."""

LONGEST_NAME = 40
"""Operators append to the name of a job; the name of a pod has 63 characters."""

_HOSTS = r"$(sed 's/[[:space:]]*slots=/:/' /etc/mpi/hostfile | paste -sd, -)"
"""The operator writes `NAME slots=N` for Open MPI and `NAME:N` for others."""

_SSH_PORT = 22
_PLAIN = re.compile(r"[A-Za-z/][\w./-]*")
_NO_TEXTS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobScript:
    """What the job does and what it asks for.

    ``folder`` is the run directory that the job makes, ``working_folder`` where it was asked for;
    ``cpus_per_task`` are the processors of a rank.
    """

    command: Sequence[str]
    name: str
    num_ranks: int
    cpus_per_task: int
    folder: Path
    working_folder: Path

    @property
    def path(self) -> Path:
        """Where the script lies: beside the run directory, which the job itself makes."""
        return self.folder.with_name(f"{self.folder.name}.sbatch")

    def text(self) -> str:
        """The script. Partition, time and account are left to ``SBATCH_...`` variables."""
        # Slurm reads a single % as the start of a pattern.
        beside = str(self.folder.absolute()).replace("%", "%%")
        return "\n".join(
            [
                "#!/bin/bash",
                f"#SBATCH --job-name={shlex.quote(f'hvdprof-{self.name}')}",
                f"#SBATCH --ntasks={self.num_ranks}",
                f"#SBATCH --cpus-per-task={self.cpus_per_task}",
                f"#SBATCH --output={shlex.quote(f'{beside}.slurm-%j.out')}",
                f"cd {shlex.quote(str(self.working_folder))}",
                f"exec {shlex.join(self.command)}",
                "",
            ]
        )


def submit(script: Path) -> str:
    """Submit a script with ``sbatch``; its answer, empty where there is no ``sbatch``.

    Raises:
        EnvironmentNotReadyError: Slurm refuses the job.
    """
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        return ""
    try:
        done = subprocess.run([sbatch, str(script)], capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentNotReadyError(f"sbatch does not answer: {error}.") from error
    if done.returncode != 0:
        raise EnvironmentNotReadyError(
            f"Slurm does not take the job: {done.stderr.strip()}",
            hint=f"Fix {script} or set SBATCH_PARTITION and the like, then: sbatch {script}",
        )
    return done.stdout.strip() or "Submitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesJob:
    """What the job does and what it asks for.

    Attributes:
        kind: ``mpijob`` or ``trainjob``.
        command: The command, without the hosts.
        name: The name of the run; that of the job is made of it.
        num_ranks: The largest number of ranks.
        pod_ranks: Ranks per pod of an MPIJob.
        rank_cores: Cores of a rank.
        has_gpus: Whether each rank has a GPU.
        image: The image of all pods.
        claim: The claim of the volume that keeps the run directory.
        namespace: Empty for that of kubectl.
        metrics_port: The port of the figures; None where none are served.
    """

    kind: str
    command: Sequence[str]
    name: str
    num_ranks: int
    pod_ranks: int
    rank_cores: int
    has_gpus: bool
    image: str
    claim: str
    namespace: str
    metrics_port: int | None

    @property
    def job_name(self) -> str:
        """The name of the job: lower case letters, digits and dashes."""
        name = re.sub(r"[^a-z0-9]+", "-", f"hvdprof-{self.name}".lower())
        return name[:LONGEST_NAME].strip("-")

    def text(self) -> str:
        """The manifest as YAML."""
        return "".join(f"{line}\n" for line in _lines(self.manifest(), ""))

    def manifest(self) -> JsonObject:
        """The manifest as plain dictionaries, lists, texts and numbers."""
        of_mpi = self.kind == MPIJOB
        metadata: JsonObject = {"name": self.job_name}
        if self.namespace:
            metadata["namespace"] = self.namespace
        return {
            "apiVersion": "kubeflow.org/v2beta1" if of_mpi else "trainer.kubeflow.org/v1alpha1",
            "kind": "MPIJob" if of_mpi else "TrainJob",
            "metadata": metadata,
            "spec": self._mpi_spec() if of_mpi else self._trainer_spec(),
        }

    def _mpi_spec(self) -> JsonObject:
        of_hvdprof, rest = self.command[:2], self.command[2:]
        line = f'exec {shlex.join(of_hvdprof)} --hosts "{_HOSTS}" {shlex.join(rest)}'
        launcher: JsonObject = {
            "name": "launcher",
            "image": self.image,
            "command": ["/bin/sh", "-c", _literal(line)],
            "volumeMounts": _mounts(),
        }
        probe: JsonObject = {"tcpSocket": {"port": _SSH_PORT}}
        worker: JsonObject = {
            "name": "worker",
            "image": self.image,
            "command": ["/usr/sbin/sshd", "-De"],
            "readinessProbe": probe,
            "resources": self._resources(self.pod_ranks),
            "volumeMounts": _mounts(),
        }
        template: JsonObject = {**self._annotated(), "spec": self._pod(launcher)}
        return {
            "slotsPerWorker": self.pod_ranks,
            # hvdprof asks every host before it starts, and a second start would find its folder.
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": template},
                "Worker": {
                    "replicas": math.ceil(self.num_ranks / self.pod_ranks),
                    "template": {"spec": self._pod(worker)},
                },
            },
        }

    def _trainer_spec(self) -> JsonObject:
        # The runtime torch-distributed has a job and a container of this name.
        node = "node"
        pod: JsonObject = {
            "volumes": self._volumes(),
            "containers": [{"name": node, "volumeMounts": _mounts()}],
        }
        of_pod: JsonObject = {**self._annotated(), "spec": pod}
        of_job: JsonObject = {"name": node, "template": {"spec": {"template": of_pod}}}
        return {
            "runtimeRef": {"name": "torch-distributed"},
            "trainer": {
                "image": self.image,
                "command": [_literal(word) for word in self.command],
                "numNodes": 1,
                "resourcesPerNode": self._resources(self.num_ranks),
            },
            "runtimePatches": [
                {
                    "manager": "hvdprof.io/run",
                    "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [of_job]}}},
                }
            ],
        }

    def _annotated(self) -> JsonObject:
        """By which an annotated scrape configuration of Prometheus finds the figures."""
        if self.metrics_port is None:
            return {}
        found: JsonObject = {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": str(self.metrics_port),
        }
        return {"metadata": {"annotations": found}}

    def _resources(self, num_ranks: int) -> JsonObject:
        gpus: JsonObject = {"nvidia.com/gpu": num_ranks} if self.has_gpus else {}
        return {"limits": {"cpu": num_ranks * self.rank_cores, **gpus}}

    def _pod(self, container: JsonObject) -> JsonObject:
        return {"containers": [container], "volumes": self._volumes()}

    def _volumes(self) -> list[object]:
        return [
            {"name": "runs", "persistentVolumeClaim": {"claimName": self.claim}},
            # 64 MB otherwise, in which neither loaders' batches nor Open MPI's segments fit.
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
        ]


def _literal(word: str) -> str:
    """The word as Kubernetes gives it on: it would replace ``$(NAME)`` by a variable."""
    return word.replace("$", "$$")


def _mounts() -> list[object]:
    return [{"name": "runs", "mountPath": MOUNT}, {"name": "shm", "mountPath": "/dev/shm"}]


def _lines(value: object, indent: str) -> Iterator[str]:
    """A mapping or a list as lines of YAML; every text that may be something else is quoted."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _entry(f"{indent}{_scalar(key)}:", item, indent)
    elif isinstance(value, list):
        for item in value:
            inner = [*_lines(item, f"{indent}  ")]
            first = inner[0].removeprefix(f"{indent}  ")
            yield f"{indent}- {first}"
            yield from inner[1:]
    else:
        yield f"{indent}{_scalar(value)}"


def _entry(head: str, item: object, indent: str) -> Iterator[str]:
    if isinstance(item, dict | list):
        yield head
        yield from _lines(item, f"{indent}  ")
    else:
        yield f"{head} {_scalar(item)}"


def _scalar(value: object) -> str:
    is_plain = isinstance(value, str) and _PLAIN.fullmatch(value) is not None
    return str(value) if is_plain and str(value).lower() not in _NO_TEXTS else json.dumps(value)

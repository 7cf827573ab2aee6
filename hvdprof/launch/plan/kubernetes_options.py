"""The options that make a manifest for Kubernetes of a measurement."""

from dataclasses import dataclass

from hvdprof.launch.plan.options import KUBERNETES, option

MPIJOB, TRAINJOB = "mpijob", "trainjob"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesOptions:
    """Where in a cluster the job runs; ``kind`` is None where it does not run there."""

    kind: str | None = option(
        None,
        f"{MPIJOB} or {TRAINJOB}: print the manifest of the job for kubectl, and start nothing. "
        f"An {MPIJOB} has pods that ssh reaches; a {TRAINJOB} has all ranks in one pod.",
        "--kubernetes",
        panel=KUBERNETES,
        known=(MPIJOB, TRAINJOB),
    )
    image: str | None = option(
        None,
        f"The image: hvdprof, the script and what it needs; for an {MPIJOB} sshd, too.",
        "--image",
        panel=KUBERNETES,
    )
    claim: str | None = option(
        None,
        "The PersistentVolumeClaim that keeps the run directory; ReadWriteMany for several pods.",
        "--claim",
        panel=KUBERNETES,
    )
    namespace: str | None = option(
        None, "The namespace; that of kubectl when not given.", "--namespace", panel=KUBERNETES
    )
    pod_ranks: int = option(
        1, f"Ranks per pod of an {MPIJOB}.", "--pod-ranks", panel=KUBERNETES, lowest=1
    )

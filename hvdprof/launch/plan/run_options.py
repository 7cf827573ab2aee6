"""The options of ``hvdprof run``, of measured functions, and of manifests for Kubernetes."""

from collections.abc import Sequence
from dataclasses import dataclass

from hvdprof.launch.plan.options import (
    DESIGN,
    ELASTIC,
    KUBERNETES,
    MEASUREMENT,
    OUTPUT,
    PRICE_HELP,
    RANKS,
    Amount,
    MeasureOptions,
    option,
)

HOROVOD_RUN, SPARK, RAY = "horovod.run", "spark", "ray"
MOST_REPEATS = 10
FUNCTION_LAUNCHERS = (HOROVOD_RUN, SPARK, RAY)

ENV_HELP = "Set a variable for the ranks: NAME=VALUE. Can be given several times."
NET_HELP = "Measure the network first, for some seconds, where ranks run on several hosts."

MPIJOB, TRAINJOB = "mpijob", "trainjob"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions(MeasureOptions):
    """What scripts and functions share: the training is the user's, and is not changed."""

    num_warmup_batches: int = option(
        5,
        "Warm-up steps; further warm-up is detected automatically.",
        "--num-warmup-batches",
        panel=MEASUREMENT,
        lowest=0,
    )
    repeats: int = option(
        1,
        "Launches at every number of ranks; with --precision or --budget the most, "
        f"{MOST_REPEATS} when not given.",
        "--repeats",
        panel=MEASUREMENT,
        lowest=1,
    )
    trace: bool = option(
        True,
        "Add a launch in which Horovod writes its timeline.",
        "--trace/--no-trace",
        panel=MEASUREMENT,
    )
    num_timeline_steps: int = option(
        50, "Steps in the timeline.", "--timeline-steps", panel=MEASUREMENT, lowest=1
    )
    light: bool = option(
        False,
        "Record means over windows of steps instead of steps and gradients: at most 1.4 MB per "
        "rank and hour, for jobs that are always recorded. Names stragglers, not gradients or "
        "collectives; implies --no-trace and --no-interleave.",
        "--light",
        panel=MEASUREMENT,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptOptions(TrainingOptions):
    """What ``hvdprof run``, ``compare --run`` and ``tune`` share.

    ``command`` starts one rank: ``("python", "train.py", "--epochs", "3")``. A job is elastic
    where ``host_discovery_script`` is given; ``np`` is then the number of ranks at its start.
    """

    command: tuple[str, ...] = option(
        (), "The script after `--`, as one rank starts it: python train.py ARGS.", panel=DESIGN
    )
    budget: Amount | None = option(
        None, "Repeat until this time is used, 5m or 90s.", "--budget", panel=MEASUREMENT
    )
    interleave: bool = option(
        True,
        "Start the launches at all numbers of ranks together and let them take turns of about a "
        "second, the others stopped: a change of the machine then affects all alike. Only on one "
        "host without GPUs, and where they fit into memory. Switch it off where launches of the "
        "script disturb each other (same output file or port).",
        "--interleave/--no-interleave",
        panel=MEASUREMENT,
    )
    env: tuple[str, ...] = option((), ENV_HELP, "--env", panel=RANKS, repeated=True)
    net: bool = option(True, NET_HELP, "--net/--no-net", panel=MEASUREMENT)
    min_np: int | None = option(
        None,
        "Least number of ranks; with fewer the job waits.",
        "--min-np",
        panel=ELASTIC,
        lowest=1,
    )
    max_np: int | None = option(
        None, "Largest number of ranks.", "--max-np", panel=ELASTIC, lowest=1
    )
    host_discovery_script: str | None = option(
        None,
        "Shell command that prints the available hosts, one per line: server1:4.",
        "--host-discovery-script",
        panel=ELASTIC,
    )
    slots: int | None = option(
        None, "Slots of hosts that stand without a number.", "--slots", panel=ELASTIC, lowest=1
    )
    network_interface: str | None = option(
        None,
        "Network interfaces that all hosts share, such as eth0; without them the job starts when "
        "two hosts are available.",
        "--network-interface",
        panel=ELASTIC,
    )
    elastic_timeout_s: int | None = option(
        None,
        "Seconds to wait for --min-np ranks; Horovod's 600 when not given.",
        "--elastic-timeout",
        panel=ELASTIC,
        lowest=1,
    )
    reset_limit: int | None = option(
        None,
        "Resets after which the job is ended; no limit when not given.",
        "--reset-limit",
        panel=ELASTIC,
        lowest=1,
    )

    @property
    def is_elastic(self) -> bool:
        """Whether the number of ranks changes while the job runs."""
        return self.host_discovery_script is not None

    @property
    def least_np(self) -> int:
        """The least number of ranks of an elastic job."""
        return self.min_np or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(ScriptOptions):
    """The options of ``hvdprof run``."""

    precision: Amount | None = option(
        None,
        "Repeat until the efficiency at the largest np is known to ± this, 3% or 0.03 (95 % CI).",
        "--precision",
        panel=MEASUREMENT,
    )
    price: float | None = option(None, PRICE_HELP, "--price", panel=OUTPUT, lowest=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionOptions(TrainingOptions):
    """How a function is measured; the defaults are those of ``hvdprof run``.

    Attributes:
        np: Number of ranks, or several, each with launches of its own.
        launcher: What starts the ranks, one of ``FUNCTION_LAUNCHERS``.
        hosts: Hosts with slots, ``"h1:4,h2:4"``; None for this host. Spark and Ray place ranks.
        num_steps: Measured steps after which the function is ended on all ranks alike; then it
            returns nothing. It runs to its own end when not given.
        name: A name for the run; the function's when not given.
    """

    np: str | int | Sequence[int] = option(1, "Number of ranks, or several.", "np=", panel=DESIGN)
    launcher: str = option(
        HOROVOD_RUN, f"{', '.join(FUNCTION_LAUNCHERS)}.", "launcher=", panel=RANKS
    )
    price: float | None = option(None, PRICE_HELP, "--price", panel=OUTPUT, lowest=0)


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

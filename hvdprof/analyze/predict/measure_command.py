"""The command that measures more of the same job, as the run itself was started.

Numbers of ranks, hosts, model and repeats are chosen by who measures; names, folders, limits,
warm-up and launches with a timeline do not change a job.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from hvdprof.model.cell_key import HOROVOD_ENGINE
from hvdprof.rundir.manifest import Manifest, Mode, Status
from hvdprof.rundir.masking import mask_command

JOB_OPTIONS: dict[str, tuple[str, object]] = {
    "controller": ("--controller", "auto"),
    "launcher": ("--launcher", "auto"),
    "device": ("--device", "auto"),
    "preset": ("--preset", "standard"),
    "scaling": ("--scaling", "weak"),
    "batch_size": ("--batch-size", None),
    "image_size": ("--image-size", None),
    "num_steps": ("--num-steps", None),
    "max_seconds": ("--max-seconds", None),
    "num_threads": ("--num-threads", None),
    "data": ("--data", "synthetic"),
    "data_dir": ("--data-dir", None),
    "env": ("--env", ()),
    "fusion_threshold_mb": ("--fusion-threshold-mb", None),
    "cycle_time_ms": ("--cycle-time-ms", None),
    "cache_capacity": ("--cache-capacity", None),
}
"""Flag and default of each, as ``launch.plan`` declares them for ``bench`` and ``run``."""

_YOUR_SCRIPT = ("python", "train.py")


def recorded_options(manifest: Manifest) -> tuple[tuple[str, str], ...]:
    """Flags with values that are not the default, in the order of ``JOB_OPTIONS``."""
    found: list[tuple[str, str]] = []
    for name, (flag, default) in JOB_OPTIONS.items():
        value = manifest.options.get(name, default)
        if isinstance(value, list | tuple):
            found += [(flag, str(item)) for item in value]
        elif value is not None and value != default:
            found.append((flag, f"{value:g}" if isinstance(value, float) else str(value)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class MeasureCommand:
    """What starts a measurement of the job of a run.

    Attributes:
        start: Command and model, or ``hvdprof run``.
        training: Command of a script; empty for reference models.
        slots: Cores or GPUs of the hosts of the run together: more ranks need more hosts. 0 where
            the run does not say.
        hosts: Number of these hosts.
        named: These hosts with their slots, ``node1:4`` each, where it was given them.
        options: Further options of the run with their values: the same job has the same.
        is_traced: Whether the run traced the job: doing so again shows no more.
    """

    start: str
    training: tuple[str, ...] = ()
    slots: int = 0
    hosts: int = 1
    named: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    is_traced: bool = False

    def at(self, sizes: Sequence[int], options: str = "") -> str:
        """The command line for some numbers of ranks.

        Args:
            sizes: The numbers of ranks.
            options: Further options, which take the place of those of the run.
        """
        words = [self.start, "--np", ",".join(map(str, sizes)), *([options] if options else [])]
        given = set(options.split())
        if "--hosts" not in given:
            words += self._hosts(max(sizes))
        for flag, value in self.options:
            words += [flag, shlex.quote(value)] if flag not in given else []
        if self.training:
            words += ["--", shlex.join(self.training)]
        return " ".join(words)

    def net(self) -> str:
        """The command that measures the network between two of its hosts."""
        names = [host.partition(":")[0] for host in self.named]
        return f"hvdprof net --hosts {','.join([*names, 'HOST1', 'HOST2'][:2])}"

    def inside(self, num_ranks: int) -> str:
        """The command that measures some ranks on one host."""
        (first, *_) = [host.partition(":")[0] for host in self.named] or ["HOST1"]
        return self.at([1, num_ranks], f"--hosts {first}:{num_ranks}")

    def _hosts(self, size: int) -> list[str]:
        if not self.slots or size <= self.slots:
            return ["--hosts", ",".join(self.named)] if self.named else []
        each = max(1, self.slots // self.hosts)
        number = -(-size // each)
        more = [f"HOST{place}:{each}" for place in range(len(self.named) + 1, number + 1)]
        shown = more if len(more) <= 2 else [more[0], "...", more[-1]]
        return ["--hosts", ",".join([*self.named, *shown])]


def measure_command(manifest: Manifest, model: str, engine: str = HOROVOD_ENGINE) -> MeasureCommand:
    """The command for the job of a run; secrets of a script's arguments are masked.

    Args:
        manifest: Of the run.
        model: The model that is asked about.
        engine: What reduces its gradients.
    """
    script = manifest.settings.get("script")
    named = tuple(filter(None, str(manifest.settings.get("hosts") or "").split(",")))
    slots = _named_slots(named) or _slots(manifest)
    hosts = max(1, len(named) or len(manifest.hosts))
    options = recorded_options(manifest)
    done = [one for one in manifest.passes if (one.mode, one.status) == (Mode.TRACE, Status.DONE)]
    is_traced = any(own.segment.model == model for one in done for own in one.segments)
    if script is not None or not manifest.settings:
        words = (script or {}).get("command", ())
        training = tuple(mask_command(map(str, words))) or _YOUR_SCRIPT
        return MeasureCommand("hvdprof run", training, slots, hosts, named, options, is_traced)
    by_engine = "" if engine == HOROVOD_ENGINE else f" --engine {engine}"
    start = f"hvdprof bench --models {shlex.quote(model)}{by_engine}"
    return MeasureCommand(start, (), slots, hosts, named, options, is_traced)


def _named_slots(named: Sequence[str]) -> int:
    counts = [host.partition(":")[2] or "1" for host in named]
    return sum(map(int, counts)) if all(count.isdecimal() for count in counts) else 0


def _slots(manifest: Manifest) -> int:
    name = "gpus" if manifest.settings.get("device") == "cuda" else "num_cores"
    found = [host.get(name) or 0 for host in manifest.hosts]
    return sum(len(slots) if isinstance(slots, list) else int(slots) for slots in found)

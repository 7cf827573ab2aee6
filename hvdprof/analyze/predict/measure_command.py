"""The command that measures more of the same job, as the run itself was started."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hvdprof.model.cell_key import HOROVOD_ENGINE
from hvdprof.rundir.manifest import Manifest
from hvdprof.rundir.masking import mask_command

_YOUR_SCRIPT = ("python", "train.py")


@dataclass(frozen=True, slots=True)
class MeasureCommand:
    """What starts a measurement of the job of a run.

    Attributes:
        start: Command and model, or ``hvdprof run``.
        training: Command of a script; empty for reference models.
        slots: Cores or GPUs of the hosts of the run together: more ranks need more hosts. 0 where
            the run does not say.
        hosts: Number of these hosts.
    """

    start: str
    training: tuple[str, ...] = ()
    slots: int = 0
    hosts: int = 1

    def at(self, sizes: Sequence[int], options: str = "") -> str:
        """The command line for some numbers of ranks.

        Args:
            sizes: The numbers of ranks.
            options: Further options.
        """
        words = [self.start, "--np", ",".join(map(str, sizes)), *([options] if options else [])]
        words += self._hosts(max(sizes))
        if self.training:
            words += ["--", shlex.join(self.training)]
        return " ".join(words)

    def _hosts(self, size: int) -> list[str]:
        if not self.slots or size <= self.slots:
            return []
        each = max(1, self.slots // self.hosts)
        number = -(-size // each)
        if number <= 2:
            return ["--hosts", ",".join(f"HOST{place}:{each}" for place in range(1, number + 1))]
        return ["--hosts", f"HOST1:{each},...,HOST{number}:{each}"]


def measure_command(manifest: Manifest, model: str, engine: str = HOROVOD_ENGINE) -> MeasureCommand:
    """The command for the job of a run; secrets of a script's arguments are masked.

    Args:
        manifest: Of the run.
        model: The model that is asked about.
        engine: What reduces its gradients.
    """
    slots, hosts = _slots(manifest), max(1, len(manifest.hosts))
    script = manifest.settings.get("script")
    if isinstance(script, Mapping) or not manifest.settings:
        words = list(script.get("command", ())) if isinstance(script, Mapping) else []
        training = tuple(mask_command(map(str, words))) or _YOUR_SCRIPT
        return MeasureCommand("hvdprof run", training, slots, hosts)
    by_engine = "" if engine == HOROVOD_ENGINE else f" --engine {engine}"
    return MeasureCommand(f"hvdprof bench --models {model}{by_engine}", (), slots, hosts)


def _slots(manifest: Manifest) -> int:
    name = "gpus" if manifest.settings.get("device") == "cuda" else "num_cores"
    found = [host.get(name) or 0 for host in manifest.hosts]
    return sum(len(one) if isinstance(one, list) else int(one) for one in found)

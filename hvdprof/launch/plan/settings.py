"""What a benchmark run is asked to do, after presets and defaults are filled in."""

from dataclasses import dataclass
from typing import Any

from hvdprof.rundir.plan import HOROVOD_ENGINE

DEFAULT_STALL_WARN_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """A model of the sweep: its name and the input it is given.

    ``batch_size`` counts samples per rank under weak scaling and of all ranks under strong
    scaling; ``image_size`` the pixels of an edge.
    """

    name: str
    batch_size: int
    image_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticSettings:
    """A job whose number of ranks changes while it runs; what is not given Horovod decides.

    ``discovery_script`` is a shell command that prints one host a line; hosts without a number
    have ``slots``. ``wait_s`` bounds how long the job waits for ``min_np`` ranks, ``reset_limit``
    how often it may begin anew.
    """

    min_np: int
    max_np: int | None
    discovery_script: str
    slots: int | None
    network_interface: str | None
    wait_s: int | None
    reset_limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptSettings:
    """A script of the user's own in place of the reference models.

    ``sets_threads`` says that the number of threads is given to its ranks rather than left alone;
    ``trace`` adds a pass in which Horovod writes its timeline, of ``num_timeline_steps`` steps.
    ``is_function`` stands for a function that was handed over from Python; ``command`` then only
    names it.
    """

    command: tuple[str, ...]
    num_timeline_steps: int
    sets_threads: bool
    trace: bool
    is_function: bool = False
    elastic: ElasticSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSettings:
    """Every choice of ``hvdprof bench`` or ``hvdprof run``; written into the manifest as it is.

    ``sizes`` are numbers of ranks. ``hosts`` is Horovod's ``h1:4,h2:4`` or None for this host.
    ``controller`` is ``mpi`` or ``gloo`` (``auto`` is decided before), ``device`` ``cpu`` or
    ``cuda``. ``timeout_s`` bounds the time without any progress of any rank.
    ``launcher`` is one of ``choose_launcher.LAUNCHER_NAMES``. After ``stall_warn_s`` of waiting for
    a rank that does not get on a stall is told (0 for never), after ``stall_kill_s`` the launch is
    ended. ``engines`` are those that reduce the gradients: ``horovod``, ``ddp``.
    ``threads_by_cores`` says that nobody asked for ``num_threads``: they are what cores allow.
    """

    sizes: tuple[int, ...]
    models: tuple[ModelSettings, ...]
    compressions: tuple[str, ...]
    reductions: tuple[str, ...]
    scaling: str
    num_warmup_batches: int
    num_steps: int | None
    max_seconds: float | None
    repeats: int
    attribution: bool
    controller: str
    device: str
    hosts: str | None
    num_threads: int
    fusion_threshold_mb: float | None
    cycle_time_ms: float | None
    cache_capacity: int | None
    data: str
    data_dir: str | None
    seed: int
    timeout_s: float
    script: ScriptSettings | None = None
    launcher: str = "auto"
    stall_warn_s: float = DEFAULT_STALL_WARN_S
    stall_kill_s: float | None = None
    engines: tuple[str, ...] = (HOROVOD_ENGINE,)
    threads_by_cores: bool = False

    @classmethod
    def from_manifest(cls, settings: dict[str, Any]) -> "BenchSettings":
        """The settings that a manifest holds, for going on with its run."""
        values = dict(settings)
        values["models"] = tuple(ModelSettings(**model) for model in values["models"])
        for name in ("sizes", "compressions", "reductions", "engines"):
            # A run of an earlier version names no engines.
            if name in values:
                values[name] = tuple(values[name])
        if values.get("script"):
            script = dict(values["script"])
            if script.get("elastic"):
                script["elastic"] = ElasticSettings(**script["elastic"])
            values["script"] = ScriptSettings(**script | {"command": tuple(script["command"])})
        return cls(**values)

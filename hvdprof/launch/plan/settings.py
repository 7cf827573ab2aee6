"""What a benchmark run does, after presets and defaults are filled in.

Tested in ``tests/launch/plan/test_bench_settings.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hvdprof.rundir.json_codec import decode
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
    """A job whose number of ranks changes while it runs; Horovod decides what is None.

    ``discovery_script`` is a shell command that prints one host per line; hosts without a number
    have ``slots``. ``wait_s`` bounds how long the job waits for ``min_np`` ranks, ``reset_limit``
    how often it is reset.
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

    With ``sets_threads`` its ranks get the number of threads of the settings; without it they keep
    theirs. ``variables`` are set for its ranks. ``trace`` adds a pass in which Horovod writes its
    timeline, of ``num_timeline_steps`` steps. ``is_function`` stands for a function that a Python
    caller passed; ``command`` then only names it. ``torchrun_options`` are those that the user
    gave to ``torchrun``.
    """

    command: tuple[str, ...]
    num_timeline_steps: int
    sets_threads: bool
    trace: bool
    is_function: bool = False
    elastic: ElasticSettings | None = None
    variables: dict[str, str] = field(default_factory=dict)
    torchrun_options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What ``hvdprof bench`` or ``hvdprof run`` does on this machine; the manifest records it.

    ``sizes`` are numbers of ranks. ``hosts`` is Horovod's ``h1:4,h2:4`` or None for this host.
    ``controller`` is ``mpi`` or ``gloo`` (``auto`` is decided before), ``device`` ``cpu`` or
    ``cuda``. ``timeout_s`` bounds the time without any progress of any rank.
    ``launcher`` is one of ``options.LAUNCHER_NAMES``. Ranks that are blocked on a stalled rank for
    ``stall_warn_s`` are reported (0 for never); after ``stall_kill_s`` the launch is ended.
    ``engines`` are those that reduce the gradients: ``horovod``, ``ddp``. A script that
    ``torchrun`` starts has ``ddp`` alone. With
    ``threads_by_cores`` the cores decided ``num_threads``, not the user.

    The launches of a repeat are resident together and take turns of ``turn_s``; they run one after
    the other where it is None, and ``no_turns`` says why where that is not by choice.

    With ``light`` the ranks of throughput launches record windows instead of steps.

    ``variables`` are set for the ranks of reference models; those of a script are its own.

    With a ``precision`` (half of the 95 % interval of an efficiency, 0..1) or a ``budget_s`` the
    run stops where one of them is reached, and ``repeats`` is the most that it measures.
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
    turn_s: float | None = None
    no_turns: str = ""
    precision: float | None = None
    budget_s: float | None = None
    variables: dict[str, str] = field(default_factory=dict)
    light: bool = False

    @property
    def stops_early(self) -> bool:
        """Whether repeats are planned one after the other, until it is known well enough."""
        return self.precision is not None or self.budget_s is not None


def read_settings(recorded: Mapping[str, object]) -> Settings:
    """The settings that a manifest records.

    Raises:
        ValueError: They are not those of this version: a field lacks, is of another type, or is not
            known here.
    """
    return decode(Settings, recorded, "settings", unknown_keys=False)

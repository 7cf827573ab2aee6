"""What a run does: the options as they were given, and what they mean on this machine."""

from dataclasses import asdict, dataclass, fields

from hvdprof.launch.plan.bench_options import BenchOptions
from hvdprof.launch.plan.preflight import AUTO
from hvdprof.launch.plan.run_options import FunctionOptions, RunOptions
from hvdprof.rundir.json_codec import JsonObject, decode
from hvdprof.rundir.manifest import Manifest
from hvdprof.rundir.plan import HOROVOD_ENGINE

AnyOptions = BenchOptions | RunOptions | FunctionOptions
LONGEST_TURN_S = 1.0
ON_HOSTS = "their ranks are on several hosts, or placed by a batch system"
ON_GPUS = "they use GPUs"
BY_MEMORY = "they do not fit into memory together"
OF_ELASTIC = "an elastic job has sessions, and no turns"
OF_TENSORFLOW = "workers of tf.distribute watch each other by the clock, also while stopped"
OF_FUNCTION = "functions are started by their own launcher"
STOOD_APART = "their ranks do not stop at the same step"
NEVER_STOOD = "the ranks of one ended without waiting for a turn"


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
class ScriptSettings:
    """A script of the user's own in place of the reference models.

    ``command`` is what a rank runs, without ``torchrun``, whose own options are
    ``torchrun_options``. ``is_function`` stands for a function that a Python caller passed;
    ``command`` then only names it. ``network_interface`` is the one of an elastic job, where
    Horovod does not look for it.
    """

    command: tuple[str, ...]
    is_function: bool = False
    network_interface: str | None = None
    torchrun_options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """What presets, defaults, the machine and the launcher decided of a run.

    ``sizes`` are numbers of ranks. ``hosts`` is Horovod's ``h1:4,h2:4`` or None for this host.
    ``controller`` is ``mpi`` or ``gloo`` (``auto`` is decided before), ``device`` ``cpu`` or
    ``cuda``. ``launcher`` is one of ``options.LAUNCHER_NAMES``. ``engines`` are those that reduce
    the gradients: ``horovod``, ``ddp``. A script that ``torchrun`` starts has ``ddp`` alone.
    ``data`` is an option of the bench, or ``idx``.

    The launches of a repeat are resident together and take turns of ``turn_s``; they run one after
    the other where it is None, and ``no_turns`` says why where that is not by choice.

    With a ``precision`` (half of the 95 % interval of an efficiency, 0..1) or a ``budget_s`` the
    run stops where one of them is reached, and ``repeats`` is the most that it measures.
    """

    sizes: tuple[int, ...]
    models: tuple[ModelSettings, ...]
    compressions: tuple[str, ...]
    reductions: tuple[str, ...]
    engines: tuple[str, ...] = (HOROVOD_ENGINE,)
    num_warmup_batches: int
    max_seconds: float | None
    repeats: int
    precision: float | None = None
    budget_s: float | None = None
    controller: str
    launcher: str = AUTO
    device: str
    hosts: str | None
    num_threads: int
    data: str
    turn_s: float | None = None
    no_turns: str = ""
    script: ScriptSettings | None = None

    @property
    def stops_early(self) -> bool:
        """Whether repeats are planned one after the other, until it is known well enough."""
        return self.precision is not None or self.budget_s is not None

    def record(self) -> JsonObject:
        """What the manifest records of them."""
        return {name: value for name, value in asdict(self).items() if name in _RESOLVED}


_RESOLVED = tuple(field.name for field in fields(Resolved))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Resolved):
    """A run of ``hvdprof bench``, of ``hvdprof run`` or of a function, which its manifest records.

    ``options`` are those that were given, whole. One that a preset, the machine or the launcher
    decides is None or ``auto`` there, and decided here.
    """

    options: AnyOptions

    @property
    def of_models(self) -> BenchOptions:
        """The options of reference models; the defaults, which have no effect, for others."""
        return self.options if isinstance(self.options, BenchOptions) else BenchOptions()

    @property
    def elastic(self) -> RunOptions | None:
        """The options of an elastic job; None for every other."""
        options = self.options
        return options if isinstance(options, RunOptions) and options.is_elastic else None

    @property
    def is_function(self) -> bool:
        """Whether ranks run a function, which carries the recordings back to this process."""
        return isinstance(self.options, FunctionOptions)

    @property
    def variables(self) -> dict[str, str]:
        """Those that the user sets for the ranks."""
        env = () if isinstance(self.options, FunctionOptions) else self.options.env
        return {name: value for name, _, value in (text.partition("=") for text in env)}


def read_settings(manifest: Manifest) -> Settings:
    """The settings that a manifest records.

    Raises:
        ValueError: They are not those of this version: a field lacks, is of another type, or is not
            known here.
    """
    resolved = decode(Resolved, manifest.settings, "settings", unknown_keys=False)
    decided = {name: getattr(resolved, name) for name in _RESOLVED}
    return Settings(options=read_options(manifest), **decided)


def read_options(manifest: Manifest) -> AnyOptions:
    """The options that a manifest records.

    Raises:
        ValueError: They are not those of this version.
    """
    kind: type[AnyOptions] = BenchOptions
    script = manifest.settings.get("script")
    if script is not None:
        kind = FunctionOptions if script.get("is_function") else RunOptions
    return decode(kind, manifest.options, "options", unknown_keys=False)


def reason_by_place(*, is_elsewhere: bool, device: str) -> str:
    """Why the place of the ranks allows no turns; empty where it does."""
    if is_elsewhere:
        return ON_HOSTS
    return "" if device == "cpu" else ON_GPUS


def failed_beside(sizes: str) -> str:
    """Why a script that failed beside others has no turns from then on."""
    return f"np={sizes} failed beside the others"

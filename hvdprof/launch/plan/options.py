"""Options of measurements: one object for the command line and for Python, field by field.

The command line builds its options from these fields, a Python caller makes the same object, and
the manifest of the run records it. A field that is None was not given: the preset or the machine
decides.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TypedDict, TypeVar, Unpack

from hvdprof.errors import UsageError
from hvdprof.launch.plan.preflight import (
    AUTO,
    CONTROLLERS,
    Sizes,
    check_known,
    check_number,
    parse_duration,
)
from hvdprof.machine.idle import IDLE_S
from hvdprof.rundir.recording.line_format import MOST_HZ, USUAL_HZ

T = TypeVar("T")
_METADATA_KEY = "option"
"""Numbers of ranks: ``"1,2,4"``, 2 or ``(1, 2, 4)``."""

Amount = str | float
"""A duration, ``"5m"`` or seconds, or a share, ``"3%"`` or 0.03."""

HOROVODRUN, MPIRUN, SRUN, TORCHRUN = "horovodrun", "mpirun", "srun", "torchrun"
JSRUN, APRUN, PALS = "jsrun", "aprun", "pals"
TENSORFLOW = "tf"
LAUNCHER_NAMES = (AUTO, HOROVODRUN, MPIRUN, SRUN, TORCHRUN, TENSORFLOW, JSRUN, APRUN, PALS)
PLACING_THEMSELVES = (JSRUN, APRUN, PALS)
"""Launchers that take the nodes of the surrounding job, which hvdprof does not reach itself."""

IN_A_JOB = (SRUN, *PLACING_THEMSELVES)
"""Launchers of ranks on the nodes of a batch job."""

WITHOUT_HOROVOD = (TORCHRUN, TENSORFLOW)
"""Launchers of ranks that need no Horovod."""

DEVICES = (AUTO, "cpu", "cuda")
DESIGN = "Design"
RANKS = "Ranks and hosts"
KUBERNETES = "Kubernetes"
NETWORK = "Network"
ELASTIC = "Elastic jobs"
MEASUREMENT = "Measurement"
HOROVOD = "Horovod's settings"
WATCH = "While the job runs"
OUTPUT = "Output"
PANELS = (DESIGN, RANKS, KUBERNETES, NETWORK, ELASTIC, MEASUREMENT, HOROVOD, WATCH, OUTPUT)
"""The panels of ``--help``, in their order."""

PRICE_HELP = (
    "Price of a GPU per hour, of a rank where ranks compute on none: the verdict says what the "
    "largest loss costs, also later; HVDPROF_PRICE when not given."
)


class Bounds(TypedDict, total=False):
    """What can be used; the keys are those of ``Option``."""

    lowest: float
    highest: float
    known: tuple[str, ...]
    repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """How a field is given on the command line.

    Attributes:
        help: What ``--help`` says.
        panel: The panel of ``--help``.
        flags: The flags, the one that messages name first; those of a switch with a negation as
            ``--trace/--no-trace``. Without any, the field is the command after ``--``.
        lowest: The least number that can be used.
        highest: The largest number that can be used.
        known: The only texts that can be used; empty for any.
        repeated: The flag can be given several times; the field is a tuple.
    """

    help: str
    panel: str
    flags: tuple[str, ...]
    lowest: float | None = None
    highest: float = math.inf
    known: tuple[str, ...] = ()
    repeated: bool = False


def option(default: T, help: str, *flags: str, panel: str, **bounds: Unpack[Bounds]) -> T:
    """A field with its default and its ``Option``."""
    declared = Option(help=help, panel=panel, flags=flags, **bounds)
    return field(default=default, metadata={_METADATA_KEY: declared})


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOptions:
    """Where ranks run, who starts them, and where the run directory is."""

    hosts: str | None = option(
        None,
        "Hosts with slots, such as h1:4,h2:4; this host when not given.",
        "--hosts",
        "-H",
        panel=RANKS,
    )
    controller: str = option(
        AUTO,
        f"{', '.join(CONTROLLERS)}; auto is MPI where it works.",
        "--controller",
        panel=RANKS,
        known=CONTROLLERS,
    )
    launcher: str = option(
        AUTO,
        f"{', '.join(LAUNCHER_NAMES)}; auto is mpirun for mpi and horovodrun for gloo; srun works "
        "inside a Slurm allocation, torchrun with scripts of torch.distributed, tf with "
        "Keras scripts under a strategy of tf.distribute, on this host; jsrun inside a job of LSF, "
        "aprun and pals (the mpiexec of PALS) inside one of PBS on a Cray, all three never run.",
        "--launcher",
        panel=RANKS,
        known=LAUNCHER_NAMES,
    )
    device: str = option(
        AUTO,
        f"{', '.join(DEVICES)}: where tensors are; slots count GPUs or cores accordingly.",
        "--device",
        panel=RANKS,
        known=DEVICES,
    )
    output: str | Path | None = option(
        None, "The run directory; runs/TIME-NAME when not given.", "--output", "-o", panel=OUTPUT
    )

    def __post_init__(self) -> None:
        """Make lists tuples and paths text, so that the manifest holds what is compared."""
        for given in fields(self):
            value = getattr(self, given.name)
            if isinstance(value, list):
                object.__setattr__(self, given.name, tuple(value))
            elif isinstance(value, Path):
                object.__setattr__(self, given.name, str(value))

    @property
    def folder(self) -> Path | None:
        """The run directory that was asked for."""
        return None if self.output is None else Path(self.output)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions(RankOptions):
    """What every measurement of a training has: its ranks, its steps and its limits."""

    np: Sizes | None = option(
        None, "Number of ranks, or several: 1,2,4,8.", "--np", "-np", panel=DESIGN
    )
    batch_size: int | None = option(
        None,
        "Samples per rank and step; read from the batches when not given.",
        "--batch-size",
        panel=MEASUREMENT,
        lowest=1,
    )
    num_warmup_batches: int | None = option(
        None,
        "Warm-up steps; further warm-up is detected automatically.",
        "--num-warmup-batches",
        panel=MEASUREMENT,
        lowest=0,
    )
    num_steps: int | None = option(
        None,
        "Measured steps, after which the training is ended; it runs to its own end when not given.",
        "--num-steps",
        panel=MEASUREMENT,
        lowest=1,
    )
    repeats: int | None = option(
        None, "Launches at every number of ranks.", "--repeats", panel=MEASUREMENT, lowest=1
    )
    num_threads: int | None = option(
        None,
        "Threads per rank (OMP_NUM_THREADS); unchanged when not given.",
        "--num-threads",
        panel=MEASUREMENT,
        lowest=1,
    )
    timeout_s: float = option(
        1800.0,
        "Seconds without a recorded step after which a launch is ended as hung.",
        "--timeout",
        panel=MEASUREMENT,
        lowest=1,
    )
    wait_for_idle: Amount | None = option(
        None,
        "Start when other processes have left the cores of this host alone for 20 s; give up after "
        "this time, 10m or 90s.",
        "--wait-for-quiet",
        panel=MEASUREMENT,
    )
    stall_warn_s: float = option(
        60.0,
        "Seconds that ranks are blocked on a stalled rank before the stall is reported with the "
        "stack of that rank; 0 for never.",
        "--stall-warn",
        panel=MEASUREMENT,
        lowest=0,
    )
    stall_kill_s: float | None = option(
        None,
        "Seconds of a stall after which the launch is ended; never when not given.",
        "--stall-kill",
        panel=MEASUREMENT,
        lowest=1,
    )
    lines_hz: float = option(
        USUAL_HZ,
        "Samples per second of the line of code that each rank and its workers run, for the lines "
        "behind a slow phase.",
        "--lines",
        panel=MEASUREMENT,
        lowest=0.1,
        highest=MOST_HZ,
    )
    no_lines: bool = option(False, "Sample no lines of code.", "--no-lines", panel=MEASUREMENT)
    flops: bool = option(
        False,
        "Count the FLOPs of the second warm-up step with torch's FlopCounterMode, which makes it "
        "slow: TFLOP/s per rank, and MFU of known GPUs.",
        "--flops",
        panel=MEASUREMENT,
    )
    name: str | None = option(
        None, "A name for the run; the script's when not given.", "--name", panel=OUTPUT
    )


def declared(kind: type) -> Iterator[tuple[str, Option]]:
    """The names of the fields of an options class with their ``Option``, panel after panel."""
    found = [(field.name, field.metadata[_METADATA_KEY]) for field in fields(kind)]
    yield from sorted(found, key=lambda pair: PANELS.index(pair[1].panel))


def check_options(options: object) -> None:
    """Check what needs no knowledge of models, scripts or machines.

    Raises:
        UsageError: A number is too small, a text is not among the known ones, or a stall would
            end a launch before it is reported.
    """
    for name, one in declared(type(options)):
        value = getattr(options, name)
        if one.known and value is not None:
            check_known(one.flags[0], value, one.known)
        if one.lowest is not None:
            check_number(one.flags[0], value, one.lowest, one.highest)
    if isinstance(options, MeasureOptions):
        if options.hosts is not None and options.launcher in PLACING_THEMSELVES:
            raise UsageError(
                f"--launcher {options.launcher} takes the nodes of its job itself.",
                hint="Omit --hosts.",
            )
        warn_s, kill_s = options.stall_warn_s, options.stall_kill_s
        if kill_s is not None and not 0 < warn_s <= kill_s:
            raise UsageError(
                f"--stall-kill {kill_s:g} is not after --stall-warn {warn_s:g}.",
                hint="A stall is reported first and ends the launch later.",
            )
        num_warmup = options.num_warmup_batches
        if options.flops and num_warmup is not None and num_warmup < 2:
            raise UsageError(
                f"--flops counts the second warm-up step; --num-warmup-batches is {num_warmup}.",
                hint="Give at least 2.",
            )
        if options.wait_for_idle is not None:
            limit_s = parse_duration("--wait-for-quiet", options.wait_for_idle)
            check_number("--wait-for-quiet", limit_s, IDLE_S)


def arguments_of(options: object) -> list[str]:
    """The words of a command line with the options of an options object, without defaults."""
    words: list[str] = []
    command: list[str] = []
    for name, one in declared(type(options)):
        value, default = getattr(options, name), default_of(type(options), name)
        if value == default:
            continue
        if not one.flags:
            command = ["--", *value]
        elif isinstance(value, bool):
            with_switch, _, without = one.flags[0].partition("/")
            words.append(with_switch if value else without)
        elif one.repeated:
            words += [word for each in value for word in (one.flags[0], each)]
        else:
            several = isinstance(value, Sequence) and not isinstance(value, str)
            words += [one.flags[0], ",".join(map(str, value)) if several else str(value)]
    return [*words, *command]


def default_of(kind: type, name: str) -> object:
    """The default of a field of an options class."""
    return next(field.default for field in fields(kind) if field.name == name)


def record_of(options: RankOptions) -> dict[str, object]:
    """What the manifest records of options."""
    return asdict(options)

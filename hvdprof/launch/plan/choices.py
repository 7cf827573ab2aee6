"""From what the user typed to complete settings: presets, defaults, and one message per mistake."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from hvdprof.errors import UsageError
from hvdprof.launch.plan.capacity import threads_that_fit
from hvdprof.launch.plan.design import ADASUM, COMPRESSIONS, ENGINES, FP16, REDUCTIONS
from hvdprof.launch.plan.hosts import Host, parse_hosts, ranks_by_host
from hvdprof.launch.plan.presets import PRESETS, SMALL_IMAGE_SIZE, Preset
from hvdprof.launch.plan.settings import DEFAULT_STALL_WARN_S, BenchSettings, ModelSettings
from hvdprof.launch.plan.validators import check_at_least, check_stall_limits
from hvdprof.rundir.plan import EMULATED, HOROVOD_ENGINE, ModelName

T = TypeVar("T")

SCALINGS = ("weak", "strong")
DATA_SOURCES = ("synthetic", "digits")
MAX_SIZE = 65_536


@dataclass(frozen=True, slots=True)
class KnownModel:
    """What the settings need to know of a reference model; sizes are pixels of an edge."""

    default_batch_size: int
    default_image_size: int
    min_image_size: int
    fixed_image_size: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The options of `hvdprof bench` as typed; None where an option was not given."""

    preset: str
    np: str | None
    models: str | None
    compression: str | None
    fp16_allreduce: bool
    reduction: str | None
    use_adasum: bool
    batch_size: int | None
    image_size: int | None
    num_warmup_batches: int | None
    num_steps: int | None
    max_seconds: float | None
    repeats: int | None
    scaling: str
    hosts: str | None
    num_threads: int | None
    fusion_threshold_mb: float | None
    cycle_time_ms: float | None
    cache_capacity: int | None
    data: str
    data_dir: Path | None
    attribution: bool
    seed: int
    timeout_s: float
    launcher: str = "auto"
    stall_warn_s: float = DEFAULT_STALL_WARN_S
    stall_kill_s: float | None = None
    engine: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What of this machine decides defaults.

    ``num_slots`` are the ranks that a batch job was given room for, None outside of one.
    """

    controller: str
    device: str
    num_cores: int
    num_gpus: int
    num_slots: int | None = None


def check(choices: Choices, known_models: Mapping[str, KnownModel]) -> BenchSettings:
    """Find mistakes that show without asking the machine anything.

    Returns:
        The settings as they would be on a machine with one core.

    Raises:
        UsageError: An option has a value that cannot be used.
    """
    anywhere = Machine(controller="mpi", device="cpu", num_cores=1, num_gpus=0)
    return complete(choices, known_models, anywhere)


def complete(
    choices: Choices, known_models: Mapping[str, KnownModel], machine: Machine
) -> BenchSettings:
    """The settings that the choices mean on this machine.

    Raises:
        UsageError: An option has a value that cannot be used.
    """
    preset = PRESETS[_one_of("--preset", choices.preset, tuple(PRESETS))]
    _check_numbers(choices)
    slots = _slots(choices, machine)
    sizes = preset.sizes or _powers_of_two(slots)
    if choices.np is not None:
        sizes = parse_sizes(choices.np)
    names = _model_names(choices.models, tuple(known_models), preset.models)
    data = _one_of("--data", choices.data, DATA_SOURCES) if choices.data_dir is None else "idx"
    return BenchSettings(
        sizes=sizes,
        models=tuple(
            _model(choices, preset, machine, n, known_models[ModelName.parse(n).reference])
            for n in names
        ),
        compressions=_toggle(
            "--compression",
            choices.compression,
            COMPRESSIONS,
            preset.compressions,
            add=FP16 if choices.fp16_allreduce else None,
        ),
        reductions=_toggle(
            "--reduction",
            choices.reduction,
            REDUCTIONS,
            preset.reductions,
            add=ADASUM if choices.use_adasum else None,
        ),
        engines=_names("--engine", choices.engine, ENGINES, (HOROVOD_ENGINE,)),
        scaling=_one_of("--scaling", choices.scaling, SCALINGS),
        num_warmup_batches=_given(choices.num_warmup_batches, preset.num_warmup_batches),
        num_steps=choices.num_steps,
        max_seconds=_max_seconds(choices, preset),
        repeats=_given(choices.repeats, preset.repeats),
        attribution=choices.attribution,
        controller=machine.controller,
        device=machine.device,
        hosts=choices.hosts,
        num_threads=_given(choices.num_threads, _threads(choices, machine, sizes)),
        threads_by_cores=choices.num_threads is None,
        fusion_threshold_mb=choices.fusion_threshold_mb,
        cycle_time_ms=choices.cycle_time_ms,
        cache_capacity=choices.cache_capacity,
        data=data,
        data_dir=str(choices.data_dir.absolute()) if choices.data_dir else None,
        seed=choices.seed,
        timeout_s=choices.timeout_s,
        launcher=choices.launcher,
        stall_warn_s=choices.stall_warn_s,
        stall_kill_s=choices.stall_kill_s,
    )


def parse_sizes(text: str) -> tuple[int, ...]:
    """The numbers of ranks of ``1,2,4``, ascending, each once.

    Raises:
        UsageError: A part is not a positive whole number; all wrong parts are named.
    """
    parts = [part.strip() for part in text.split(",")]
    wrong = [part for part in parts if not part.isdecimal() or not 1 <= int(part) <= MAX_SIZE]
    if wrong:
        named = " and ".join(repr(part) for part in wrong)
        verb = "is not a number of ranks" if len(wrong) == 1 else "are not numbers of ranks"
        raise UsageError(
            f"--np {text}: {named} {verb}.", hint="Give positive whole numbers: --np 1,2,4,8"
        )
    return tuple(sorted({int(part) for part in parts}))


def _model(
    choices: Choices, preset: Preset, machine: Machine, name: str, known: KnownModel
) -> ModelSettings:
    if known.fixed_image_size:
        image_size = known.default_image_size
    else:
        on_gpu = machine.device == "cuda"
        default = known.default_image_size if on_gpu else SMALL_IMAGE_SIZE
        wanted = _given(choices.image_size, _given(preset.image_size, default))
        if choices.image_size is not None and wanted < known.min_image_size:
            raise UsageError(
                f"--image-size {wanted}: {name} needs images of at least "
                f"{known.min_image_size} pixels.",
                hint=f"Raise --image-size or leave {name} out of --models.",
            )
        image_size = max(wanted, known.min_image_size)
    batch_size = _given(choices.batch_size, known.default_batch_size)
    return ModelSettings(name=name, batch_size=batch_size, image_size=image_size)


def _max_seconds(choices: Choices, preset: Preset) -> float | None:
    if choices.max_seconds is not None:
        return choices.max_seconds
    return preset.max_seconds if choices.num_steps is None else None


def _slots(choices: Choices, machine: Machine) -> int:
    if choices.hosts:
        return sum(host.slots for host in parse_hosts(choices.hosts))
    if machine.num_slots is not None:
        return machine.num_slots
    return machine.num_gpus if machine.device == "cuda" else machine.num_cores


def _threads(choices: Choices, machine: Machine, sizes: Sequence[int]) -> int:
    """Threads a rank, as if every host had the cores of this one."""
    hosts = parse_hosts(choices.hosts) if choices.hosts else (Host("localhost", max(sizes)),)
    slots = sum(host.slots for host in hosts)
    placements = [ranks_by_host(hosts, size) for size in sizes if size <= slots]
    return threads_that_fit(placements, {host.name: machine.num_cores for host in hosts})


def _powers_of_two(most: int) -> tuple[int, ...]:
    return tuple(2**power for power in range(most.bit_length()) if 2**power <= most) or (1,)


def _toggle(
    option: str,
    text: str | None,
    known: tuple[str, ...],
    default: tuple[str, ...],
    *,
    add: str | None,
) -> tuple[str, ...]:
    chosen = _names(option, text, known, default)
    return tuple(name for name in known if name in chosen or name == add)


def _model_names(
    text: str | None, known: tuple[str, ...], default: tuple[str, ...]
) -> tuple[str, ...]:
    # An emulated model is known where the one that it stands for is.
    parts = (text or "").split(",")
    emulated = [part.strip() for part in parts if part.strip().startswith(EMULATED)]
    usable = [name for name in emulated if ModelName.parse(name).reference in known]
    return _names("--models", text, (*known, *usable), default)


def _names(
    option: str, text: str | None, known: tuple[str, ...], default: tuple[str, ...]
) -> tuple[str, ...]:
    if text is None:
        return default
    names = [part.strip() for part in text.split(",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(
            f"{option} {text}: {' and '.join(map(repr, unknown))} "
            f"{'is' if len(unknown) == 1 else 'are'} not known.",
            hint=f"Known: {', '.join(known)}",
        )
    return tuple(dict.fromkeys(names))


def _one_of(option: str, text: str, known: tuple[str, ...]) -> str:
    if text not in known:
        raise UsageError(f"{option} {text}: not known.", hint=f"Known: {', '.join(known)}")
    return text


def _check_numbers(choices: Choices) -> None:
    lowest: tuple[tuple[str, float | None, float], ...] = (
        ("--batch-size", choices.batch_size, 1),
        ("--image-size", choices.image_size, 1),
        ("--num-warmup-batches", choices.num_warmup_batches, 1),
        ("--num-steps", choices.num_steps, 2),
        ("--max-seconds", choices.max_seconds, 0.1),
        ("--repeats", choices.repeats, 1),
        ("--num-threads", choices.num_threads, 1),
        ("--fusion-threshold-mb", choices.fusion_threshold_mb, 0),
        ("--cycle-time-ms", choices.cycle_time_ms, 0),
        ("--cache-capacity", choices.cache_capacity, 0),
        ("--timeout", choices.timeout_s, 1),
    )
    check_at_least(lowest)
    check_stall_limits(choices.stall_warn_s, choices.stall_kill_s)


def _given(value: T | None, default: T) -> T:
    return default if value is None else value

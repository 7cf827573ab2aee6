"""From the options of ``hvdprof bench`` to complete settings: presets, defaults, checked names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from hvdprof.errors import UsageError
from hvdprof.launch.plan.bench_options import (
    ADASUM,
    COMPRESSIONS,
    ENGINES,
    FP16,
    PRESETS,
    REDUCTIONS,
    SMALL_IMAGE_SIZE,
    BenchOptions,
    Names,
    Preset,
)
from hvdprof.launch.plan.hosts import (
    Host,
    fit_together,
    parse_hosts,
    ranks_by_host,
    threads_that_fit,
)
from hvdprof.launch.plan.options import IN_A_JOB, TENSORFLOW, TORCHRUN, check_options
from hvdprof.launch.plan.preflight import AUTO, parse_duration, parse_precision, parse_sizes
from hvdprof.launch.plan.settings import (
    BY_MEMORY,
    LONGEST_TURN_S,
    OF_TENSORFLOW,
    ModelSettings,
    Settings,
    reason_by_place,
)
from hvdprof.rundir.plan import EMULATED, HOROVOD_ENGINE, TF_ENGINES, ModelName

T = TypeVar("T")

SHORTEST_TURN_S = 0.25
TURNS_PER_REPEAT = 4
"""As many, where they are not longer than ``LONGEST_TURN_S``: A B B A A B B A."""


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A reference model as far as settings depend on it; sizes are pixels of an edge.

    ``num_parameters`` is 0 where the model is small.
    """

    default_batch_size: int
    default_image_size: int
    min_image_size: int
    fixed_image_size: bool
    num_parameters: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The properties of this machine that defaults depend on.

    ``num_slots`` counts the ranks that a batch job has room for; None outside of one.
    ``memory_bytes`` is what new processes can have, None where unknown.
    """

    controller: str
    device: str
    num_cores: int
    num_gpus: int
    num_slots: int | None = None
    memory_bytes: int | None = None


def check_bench_options(options: BenchOptions, known_models: Mapping[str, KnownModel]) -> Settings:
    """Find mistakes that show without asking the machine anything.

    Returns:
        The settings as they would be on a machine with one core.

    Raises:
        UsageError: An option has a value that cannot be used.
    """
    anywhere = Machine(controller="mpi", device="cpu", num_cores=1, num_gpus=0)
    return bench_settings(options, known_models, anywhere)


def bench_settings(
    options: BenchOptions, known_models: Mapping[str, KnownModel], machine: Machine
) -> Settings:
    """The settings that options mean on this machine.

    Raises:
        UsageError: An option has a value that cannot be used.
    """
    check_options(options)
    preset = PRESETS[options.preset]
    sizes = parse_sizes(options.np) if options.np is not None else preset.sizes
    sizes = sizes or _powers_of_two(_slots(options, machine))
    names = _model_names(options.models, tuple(known_models), preset.models)
    precision, budget_s = _stopping(options, preset)
    known = [known_models[ModelName.parse(name).reference] for name in names]
    no_turns = _no_turns(options, machine, sizes, known)
    # A window may hold steps of a turn and steps before it.
    takes_turns = options.interleave and not options.light
    data_dir = options.data_dir and str(Path(options.data_dir).absolute())
    return Settings(
        # The folder of a resumed run is another one.
        options=replace(options, data_dir=data_dir),
        sizes=sizes,
        models=tuple(
            _model(options, preset, machine, name, model)
            for name, model in zip(names, known, strict=True)
        ),
        compressions=_toggle(
            "--compression",
            options.compression,
            COMPRESSIONS,
            preset.compressions,
            add=FP16 if options.fp16_allreduce else None,
        ),
        reductions=_toggle(
            "--reduction",
            options.reduction,
            REDUCTIONS,
            preset.reductions,
            add=ADASUM if options.use_adasum else None,
        ),
        engines=_engines(options),
        num_warmup_batches=_given(options.num_warmup_batches, preset.num_warmup_batches),
        max_seconds=_max_seconds(options, preset),
        repeats=_given(options.repeats, preset.repeats),
        precision=precision,
        budget_s=budget_s,
        controller=machine.controller,
        device=machine.device,
        hosts=options.hosts,
        num_threads=_given(options.num_threads, _threads(options, machine, sizes)),
        data=options.data if options.data_dir is None else "idx",
        launcher=bench_launcher(options),
        turn_s=_turn_s(options, preset) if takes_turns and not no_turns else None,
        no_turns=no_turns if takes_turns else "",
    )


def bench_launcher(options: BenchOptions) -> str:
    """The launcher of a bench: ``torchrun`` where no engine is Horovod, which it then needs not.

    ``tf`` where all are strategies of ``tf.distribute``.

    Raises:
        UsageError: An engine is unknown or stated twice.
    """
    engines = _engines(options)
    if options.launcher != AUTO or HOROVOD_ENGINE in engines:
        return options.launcher
    return TENSORFLOW if set(engines) <= set(TF_ENGINES) else TORCHRUN


def _engines(options: BenchOptions) -> tuple[str, ...]:
    return _names("--engine", options.engine, ENGINES, (HOROVOD_ENGINE,))


def _model(
    options: BenchOptions, preset: Preset, machine: Machine, name: str, known: KnownModel
) -> ModelSettings:
    if known.fixed_image_size:
        image_size = known.default_image_size
    else:
        on_gpu = machine.device == "cuda"
        default = known.default_image_size if on_gpu else SMALL_IMAGE_SIZE
        wanted = _given(options.image_size, _given(preset.image_size, default))
        if options.image_size is not None and wanted < known.min_image_size:
            raise UsageError(
                f"--image-size {wanted}: {name} needs images of at least "
                f"{known.min_image_size} pixels.",
                hint=f"Raise --image-size or leave {name} out of --models.",
            )
        image_size = max(wanted, known.min_image_size)
    batch_size = _given(options.batch_size, known.default_batch_size)
    return ModelSettings(name=name, batch_size=batch_size, image_size=image_size)


def _max_seconds(options: BenchOptions, preset: Preset) -> float | None:
    if options.max_seconds is not None:
        return options.max_seconds
    return preset.max_seconds if options.num_steps is None else None


def _stopping(options: BenchOptions, preset: Preset) -> tuple[float | None, float | None]:
    """The precision and the seconds at which the run stops; None where repeats are exact."""
    if options.repeats is not None and options.precision is None and options.budget is None:
        return None, None
    precision = preset.precision if options.precision is None else options.precision
    budget = preset.budget if options.budget is None else options.budget
    return parse_precision("--precision", precision), parse_duration("--budget", budget)


def _no_turns(
    options: BenchOptions, machine: Machine, sizes: Sequence[int], models: Sequence[KnownModel]
) -> str:
    """Why the launches of a repeat cannot be resident together; empty where they can."""
    is_elsewhere = bool(options.hosts) or options.launcher in IN_A_JOB
    if set(_engines(options)) & set(TF_ENGINES):
        return OF_TENSORFLOW
    reason = reason_by_place(is_elsewhere=is_elsewhere, device=machine.device)
    if reason:
        return reason
    num_engines = len(_engines(options))
    # Plain torch is a launch of one rank beside those of the engines.
    num_ranks = num_engines * sum(sizes) + 1
    largest = max(model.num_parameters for model in models)
    return "" if fit_together(num_ranks, largest, machine.memory_bytes) else BY_MEMORY


def _turn_s(options: BenchOptions, preset: Preset) -> float:
    """The length of a turn."""
    seconds = _max_seconds(options, preset)
    if seconds is None:
        return LONGEST_TURN_S
    return min(LONGEST_TURN_S, max(SHORTEST_TURN_S, seconds / TURNS_PER_REPEAT))


def _slots(options: BenchOptions, machine: Machine) -> int:
    if options.hosts:
        return sum(host.slots for host in parse_hosts(options.hosts))
    if machine.num_slots is not None:
        return machine.num_slots
    return machine.num_gpus if machine.device == "cuda" else machine.num_cores


def _threads(options: BenchOptions, machine: Machine, sizes: Sequence[int]) -> int:
    """Threads per rank, as if every host had the cores of this one."""
    hosts = parse_hosts(options.hosts) if options.hosts else (Host("localhost", max(sizes)),)
    slots = sum(host.slots for host in hosts)
    placements = [ranks_by_host(hosts, size) for size in sizes if size <= slots]
    return threads_that_fit(placements, {host.name: machine.num_cores for host in hosts})


def _powers_of_two(most: int) -> tuple[int, ...]:
    return tuple(2**power for power in range(most.bit_length()) if 2**power <= most) or (1,)


def _toggle(
    flag: str,
    names: Names | None,
    known: tuple[str, ...],
    default: tuple[str, ...],
    *,
    add: str | None,
) -> tuple[str, ...]:
    chosen = _names(flag, names, known, default)
    return tuple(name for name in known if name in chosen or name == add)


def _model_names(
    names: Names | None, known: tuple[str, ...], default: tuple[str, ...]
) -> tuple[str, ...]:
    # An emulated model is known where its reference model is.
    emulated = [name for name in _split(names or "") if name.startswith(EMULATED)]
    usable = [name for name in emulated if ModelName.parse(name).reference in known]
    return _names("--models", names, (*known, *usable), default)


def _names(
    flag: str, names: Names | None, known: tuple[str, ...], default: tuple[str, ...]
) -> tuple[str, ...]:
    if names is None:
        return default
    chosen = _split(names)
    unknown = [name for name in chosen if name not in known]
    if unknown:
        text = names if isinstance(names, str) else ",".join(names)
        raise UsageError(
            f"{flag} {text}: {' and '.join(map(repr, unknown))} "
            f"{'is' if len(unknown) == 1 else 'are'} not known.",
            hint=f"Known: {', '.join(known)}",
        )
    return tuple(dict.fromkeys(chosen))


def _split(names: Names) -> list[str]:
    return [part.strip() for part in (names.split(",") if isinstance(names, str) else names)]


def _given(value: T | None, default: T) -> T:
    return default if value is None else value

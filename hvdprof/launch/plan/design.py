"""The factorial design: which cells run, which are skipped and why, and in which passes.

Passes of one repeat hold every cell once, and repeats follow each other, so that a slow drift of
the machine falls on all cells alike; within every second repeat the order is reversed (A B B A).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hvdprof.launch.plan.bench_options import ADASUM, AVERAGE, FP16, NO_COMPRESSION
from hvdprof.launch.plan.hosts import Capacity, can_pin, crowds, lacks_slots, placement
from hvdprof.launch.plan.options import IN_A_JOB
from hvdprof.launch.plan.run_options import TrainingOptions
from hvdprof.launch.plan.settings import ModelSettings, Settings
from hvdprof.launch.plan.workload import SCRIPT_SEGMENT, backend_of
from hvdprof.rundir.manifest import Mode, PassRecord, SegmentRecord, Skipped
from hvdprof.rundir.plan import (
    DATA_PARALLEL_ENGINE,
    DDP_ENGINE,
    HOROVOD_ENGINE,
    KERAS_TWIN,
    KERAS_TWINS,
    TF_ENGINES,
    TORCH_ENGINE,
    Segment,
    num_beside,
)

Setting = tuple[str, str, str]
"""The engine, the compression and the reduction of a cell."""


@dataclass(frozen=True, slots=True)
class Design:
    """The passes in the order in which they run, and the cells that do not run."""

    passes: list[PassRecord]
    skipped: list[Skipped]


def plan_design(settings: Settings, capacity: Capacity) -> Design:
    """All passes of a sweep, the skipped cells apart; of one that stops early the first repeat.

    A pass is one launch at one number of ranks in one mode; see ``rundir.plan`` for its segments.
    Plain torch has launches of its own: after another segment of the same process it would find
    warm memory, and be compared with a Horovod that does not.
    """
    skipped: list[Skipped] = []
    if settings.script is not None:
        groups = list(_script_groups(settings, skipped))
    else:
        groups = _reference_groups(settings, capacity, skipped)
    passes = [
        _pass(settings, capacity, number, launch)
        for number, launch in enumerate(_rounds(settings, groups), start=1)
    ]
    return Design(passes, skipped)


def _reference_groups(
    settings: Settings, capacity: Capacity, skipped: list[Skipped]
) -> list["_Group"]:
    groups: list[_Group] = []
    for size in settings.sizes:
        if size == 1 and not set(settings.engines) <= set(TF_ENGINES):
            baselines = (
                _segment(settings, model, 1, engine=TORCH_ENGINE) for model in settings.models
            )
            groups.append(_Group(1, TORCH_ENGINE, tuple(baselines)))
        for engine in settings.engines:
            cells = tuple(_cells(settings, capacity, size, engine, skipped))
            if cells:
                groups.append(_Group(size, engine, cells))
    return groups


def _script_groups(settings: Settings, skipped: list[Skipped]) -> Iterator["_Group"]:
    model = settings.models[0]
    for size in settings.sizes:
        reason = lacks_slots(settings, size)
        (engine,) = settings.engines
        if reason:
            skipped.append(
                Skipped(
                    model=model.name,
                    size=size,
                    compression=NO_COMPRESSION,
                    reduction=AVERAGE,
                    reason=reason,
                    engine=engine,
                )
            )
            continue
        segment = _segment(settings, model, size, engine=engine)
        yield _Group(size, engine, (replace(segment, id=SCRIPT_SEGMENT),))


@dataclass(frozen=True, slots=True)
class _Group:
    """The segments that one launch runs: one engine at one number of ranks."""

    size: int
    engine: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class _Launch:
    mode: Mode
    group: _Group
    repeat: int


def _rounds(settings: Settings, groups: list[_Group]) -> Iterator[_Launch]:
    options = settings.options
    # Of what a strategy, or one process, reduces no launch sees more.
    observed = [
        group
        for group in groups
        if (group.size > 1 or settings.elastic)
        and group.engine not in (DATA_PARALLEL_ENGINE, *TF_ENGINES)
    ]
    if isinstance(options, TrainingOptions) and (options.light or not options.trace):
        observed = []
    # ``launch.run.repeats`` plans the others, as the result needs them.
    for repeat in range(1, 2 if settings.stops_early else settings.repeats + 1):
        for group in groups if repeat % 2 else reversed(groups):
            yield _Launch(Mode.THROUGHPUT, group, repeat)
        if repeat == 1:
            for group in observed:
                yield _Launch(Mode.TRACE, group, repeat)
            for group in observed if settings.of_models.attribution else ():
                # Response cache and rank ticks are Horovod's.
                if group.engine == HOROVOD_ENGINE:
                    yield _Launch(Mode.ATTRIBUTION, group, repeat)


def _pass(settings: Settings, capacity: Capacity, number: int, launch: _Launch) -> PassRecord:
    size, segments, engine = launch.group.size, launch.group.segments, launch.group.engine
    # DDP writes no timeline: the communication hook records into the recorder files.
    timeline = launch.mode is not Mode.THROUGHPUT and engine == HOROVOD_ENGINE
    # What a script reduces with is known to its ranks alone.
    named = (DDP_ENGINE, DATA_PARALLEL_ENGINE, *(() if settings.script else TF_ENGINES))
    what = {TORCH_ENGINE: TORCH_ENGINE, **{name: f"{name}-{launch.mode}" for name in named}}
    ranks = "elastic" if settings.elastic else f"np{size}"
    beside = num_beside(engine)
    placed = {host: ranks + beside for host, ranks in placement(settings, size).items()}
    return PassRecord(
        id=f"{number:02d}-{ranks}-{what.get(engine, launch.mode)}-r{launch.repeat}",
        mode=launch.mode,
        size=size,
        repeat=launch.repeat,
        controller=backend_of(settings, engine),
        oversubscribed=bool(crowds(settings, capacity, placed)),
        # A script places itself; its ranks record afterwards whether each had cores of its own.
        pinned=not (settings.script or beside)
        and can_pin(settings, capacity, placed, timeline=timeline),
        segments=[
            SegmentRecord(segment=replace(segment, timeline=timeline))
            for segment in (segments if launch.repeat % 2 else reversed(segments))
        ],
        session=0 if settings.elastic else None,
    )


def _cells(
    settings: Settings, capacity: Capacity, size: int, engine: str, skipped: list[Skipped]
) -> Iterator[Segment]:
    for model in settings.models:
        for compression in settings.compressions:
            for reduction in settings.reductions:
                toggles = (compression, reduction)
                reason = reason_to_skip(settings, capacity, size, model, (engine, *toggles))
                if reason:
                    skipped.append(
                        Skipped(
                            model=model.name,
                            size=size,
                            compression=compression,
                            reduction=reduction,
                            reason=reason,
                            engine=engine,
                        )
                    )
                    continue
                names = toggles if engine == HOROVOD_ENGINE else (engine, *toggles)
                trained = KERAS_TWIN + model.name if engine in TF_ENGINES else model.name
                yield replace(
                    _segment(settings, model, size, engine=engine),
                    model=trained,
                    id="-".join((trained, *names)),
                    compression=compression,
                    reduction=reduction,
                )


def _segment(settings: Settings, model: ModelSettings, size: int, *, engine: str) -> Segment:
    strong = settings.of_models.scaling == "strong"
    return Segment(
        id=f"{model.name}-{engine}",
        engine=engine,
        model=model.name,
        compression=NO_COMPRESSION,
        reduction=AVERAGE,
        batch_size=model.batch_size // size if strong else model.batch_size,
        image_size=model.image_size,
        num_warmup_batches=settings.num_warmup_batches,
        num_steps=settings.options.num_steps,
        max_seconds=settings.max_seconds,
        timeline=False,
    )


def reason_to_skip(
    settings: Settings, capacity: Capacity, size: int, model: ModelSettings, setting: Setting
) -> str:
    """Why a cell does not run, or would not be what its name says; empty where it runs."""
    engine, compression, reduction = setting
    if engine in TF_ENGINES and (reason := _reason_against_tf(settings, model, setting)):
        return reason
    if engine == DDP_ENGINE and (reason := _reason_against_ddp(settings, reduction)):
        return reason
    if engine == DATA_PARALLEL_ENGINE and (
        reason := _reason_against_data_parallel(settings, capacity, size, setting)
    ):
        return reason
    if reason := lacks_slots(settings, size):
        return reason
    if settings.of_models.scaling == "strong" and model.batch_size % size:
        return f"the global batch of {model.batch_size} cannot be divided by {size} ranks"
    if size == 1 and compression == FP16:
        return "nothing is sent at np=1, so compression would do nothing"
    if reduction == ADASUM:
        return _reason_against_adasum(settings, capacity, size)
    return ""


def _reason_against_tf(settings: Settings, model: ModelSettings, setting: Setting) -> str:
    if model.name not in KERAS_TWINS:
        return f"no twin in Keras; strategies of tf.distribute train {' and '.join(KERAS_TWINS)}"
    if setting[1:] != (NO_COMPRESSION, AVERAGE):
        return "strategies of tf.distribute average, without compression"
    if settings.hosts or settings.launcher in IN_A_JOB:
        return "workers of tf.distribute are started on this host alone"
    if settings.data != "synthetic":
        return "twins in Keras train on synthetic data alone"
    return ""


def _reason_against_ddp(settings: Settings, reduction: str) -> str:
    if settings.launcher in IN_A_JOB:
        return (
            f"the launches of DDP are started by torchrun, not by {settings.launcher}; name the "
            "nodes as --hosts"
        )
    if reduction == ADASUM:
        return "DDP has no Adasum"
    return ""


def _reason_against_data_parallel(
    settings: Settings, capacity: Capacity, size: int, setting: Setting
) -> str:
    if settings.hosts or settings.launcher in IN_A_JOB:
        return "DataParallel is one process on this host"
    if setting[1:] != (NO_COMPRESSION, AVERAGE):
        return "DataParallel averages, without compression"
    if size == 1:
        return "with one replica DataParallel is plain torch"
    num_gpus = capacity.gpus_by_host.get("localhost") or 0
    return f"DataParallel needs {size} GPUs, not {num_gpus}" if num_gpus < size else ""


def _reason_against_adasum(settings: Settings, capacity: Capacity, size: int) -> str:
    if size == 1:
        return "nothing is reduced at np=1, so Adasum would do nothing"
    if settings.controller == "gloo":
        return "Horovod has no Adasum under Gloo; it needs MPI"
    if capacity.nccl:
        return _reason_against_adasum_of_hosts(placement(settings, size))
    if not _is_power_of_two(size):
        return f"Adasum needs a power of two of ranks, not {size}"
    return ""


def _reason_against_adasum_of_hosts(placed: dict[str, int]) -> str:
    if len(placed) == 1:
        return "Adasum over NCCL on one host is plain averaging"
    if len(set(placed.values())) > 1:
        ranks = ", ".join(map(str, placed.values()))
        return f"Adasum over NCCL needs as many ranks on every host, not {ranks}"
    if not _is_power_of_two(len(placed)):
        return f"Adasum over NCCL needs a power of two of hosts, not {len(placed)}"
    return ""


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0

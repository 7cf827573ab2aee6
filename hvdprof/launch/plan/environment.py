"""The environment of a pass: what is set for its ranks, also by the user, and what is kept away."""

import os
from collections.abc import Mapping, Sequence

from hvdprof.collect.watchdog import STALL_WARN
from hvdprof.errors import UsageError
from hvdprof.launch.plan.bench_options import BenchOptions
from hvdprof.launch.plan.options import IN_A_JOB
from hvdprof.launch.plan.preflight import MPI
from hvdprof.launch.plan.settings import Settings
from hvdprof.launch.plan.workload import workload_environment
from hvdprof.machine.mpi import OPENMPI, Mpi
from hvdprof.rundir.launch_format import BUCKET_CAP, DDP_ARGUMENTS, FLIGHT_FOLDER, ddp_argument
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import Mode, PassRecord
from hvdprof.rundir.plan import OTHER_ENGINES, TORCH_DISTRIBUTED_ENGINES
from hvdprof.rundir.recording.line_format import LIGHT, LINES_HZ
from hvdprof.rundir.recording.sample_format import FLOPS

PASS_MARK = "HVDPROF_PASS_MARK"
RECORDER_DIR = "HVDPROF_RECORDER_DIR"
FLIGHT_ENTRIES = 2000
"""Latest collectives that PyTorch's Flight Recorder keeps per rank in trace passes, 1 MB."""

OPENMPI_TRANSPORTS, NOT_LIBFABRIC = "OMPI_MCA_btl", "^ofi"
"""The transport of one-sided operations over libfabric, which nothing here uses: it makes
``MPI_Finalize`` of Open MPI 4.1 sleep for a second."""

CHANGING_WHAT_IS_MEASURED = frozenset(
    {"HOROVOD_TIMELINE", "HOROVOD_TIMELINE_MARK_CYCLES", "HOROVOD_AUTOTUNE", "HOROVOD_AUTOTUNE_LOG"}
)
_DISTURBING = CHANGING_WHAT_IS_MEASURED | frozenset(
    {
        "HOROVOD_ELASTIC",
        "HOROVOD_CONTROLLER",
        "HOROVOD_CPU_OPERATIONS",
        "HOROVOD_HOSTNAME",
        # Those of a surrounding torchrun.
        *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
        *(
            f"HOROVOD_{kind}{what}"
            for kind in ("", "LOCAL_", "CROSS_")
            for what in ("RANK", "SIZE")
        ),
    }
)
_OF_A_SURROUNDING_JOB = (
    "OMPI_COMM_",
    "OMPI_UNIVERSE",
    "PMIX_",
    "PMI_",
    "PRTE_",
    "HOROVOD_GLOO_RENDEZVOUS",
    "TORCHELASTIC_",
    # Options of torchrun, which operators of clusters set in their containers.
    "PET_",
)
_PASSED_ON = (
    *("HOROVOD_", "HVDPROF_", "NCCL_", "GLOO_", "UCX_", "FI_", "CUDA_"),
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_"),
    *("TF_", "XLA_", "TORCH_", "PYTORCH_"),
)
_PASSED_ON_NAMES = ("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH")
# As horovod/runner/common/util/env.py of 0.28.1 has it: each host counts its own GPUs.
_OF_THIS_HOST = ("CUDA_VISIBLE_DEVICES",)


def sets_itself(name: str) -> bool:
    """Whether hvdprof decides over a variable in every launch, so that a user cannot set it."""
    if name in DDP_ARGUMENTS:
        return False
    return (
        name in _DISTURBING
        or name.startswith(_OF_A_SURROUNDING_JOB)
        or name in ("PYTHONPATH", "PYTHONFAULTHANDLER")
        or name.startswith("HVDPROF_")
    )


def inherited_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The surrounding environment without what would change the measurement.

    Timeline and autotune would make a throughput pass something else; rank variables of a
    surrounding job would be taken for the pass's own.
    """
    return {
        name: value
        for name, value in environment.items()
        if name not in _DISTURBING and not name.startswith(_OF_A_SURROUNDING_JOB)
    }


def names_to_pass_on(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Names of inherited variables that ranks on other hosts need too, sorted.

    They are those that change how fast a rank is: it would be compared with ranks that have them.
    """
    return tuple(
        sorted(
            name
            for name in inherited_environment(environment)
            if name.startswith(_PASSED_ON) or name in _PASSED_ON_NAMES
            if name not in _OF_THIS_HOST
        )
    )


def pass_environment(
    settings: Settings, record: PassRecord, paths: PassPaths, mpi: Mpi | None
) -> dict[str, str]:
    """What is set for the ranks of a pass, on top of what they inherit.

    ``mpi`` is the one that Horovod was built with: its libraries must be found under Gloo too.
    """
    variables = {
        RECORDER_DIR: str(paths.recorder_folder),
        "PYTHONFAULTHANDLER": "1",
        "PYTHONUNBUFFERED": "" if _tags_pieces(record, mpi) else "1",
    }
    if settings.options.light and record.mode == Mode.THROUGHPUT:
        variables[LIGHT] = "1"
    variables[LINES_HZ] = "0" if settings.options.no_lines else f"{settings.options.lines_hz:g}"
    if settings.options.flops and record.mode == Mode.THROUGHPUT:
        variables[FLOPS] = "1"
    stall_warn_s = settings.options.stall_warn_s
    if stall_warn_s and (record.size > 1 or record.session is not None):
        variables[STALL_WARN] = str(stall_warn_s)
    if record.engine not in OTHER_ENGINES:
        variables |= _of_horovod(settings.of_models, record)
    elif (
        record.engine in TORCH_DISTRIBUTED_ENGINES
        and settings.script is not None
        and record.mode != Mode.THROUGHPUT
    ):
        variables |= _of_flight_recorder(paths)
    if settings.device == "cuda":
        variables["NCCL_DEBUG"] = "INFO"
        # Newer versions write a TUNING line for every collective: not where time is measured.
        observed = ",TUNING,COLL" if record.mode != Mode.THROUGHPUT else ""
        variables["NCCL_DEBUG_SUBSYS"] = f"INIT,ENV,GRAPH,NET{observed}"
        variables["NCCL_DEBUG_FILE"] = str(paths.nccl_folder / "%h.%p.log")
    variables = settings.variables | variables
    variables |= workload_environment(settings, record, paths, os.environ.get("PYTHONPATH", ""))
    if mpi is not None:
        variables |= mpi.environment(dict(os.environ))
        if mpi.flavour == OPENMPI and is_on_this_host(settings):
            variables |= _transports_here(settings)
    return variables


def is_on_this_host(settings: Settings) -> bool:
    """Whether all ranks of all launches are on this host; those of an elastic job may move."""
    return not settings.hosts and settings.launcher not in IN_A_JOB and settings.elastic is None


def _transports_here(settings: Settings) -> dict[str, str]:
    """What ranks on one host do not need of Open MPI; a user's own choice holds.

    They send through shared memory, and without TCP they listen at no port. ``mpirun`` itself
    listens on all addresses, with any ``oob_tcp_if_include`` (4.1.8 and 5.0.11).
    """
    if OPENMPI_TRANSPORTS in os.environ:
        return {}
    # A script may use one-sided operations.
    unneeded = "^tcp" if settings.script is not None else f"{NOT_LIBFABRIC},tcp"
    return {OPENMPI_TRANSPORTS: unneeded}


def _tags_pieces(record: PassRecord, mpi: Mpi | None) -> bool:
    # Unbuffered, Python writes a line in pieces, of which such a launcher tags each.
    return mpi is not None and record.controller == MPI and mpi.tags_pieces


def _of_flight_recorder(paths: PassPaths) -> dict[str, str]:
    # Two names: before torch 2.13 and since.
    names = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
    sizes = {name: str(FLIGHT_ENTRIES) for name in names if name not in os.environ}
    return {FLIGHT_FOLDER: str(paths.flight_folder), **sizes}


def _of_horovod(options: BenchOptions, record: PassRecord) -> dict[str, str]:
    """Horovod's knobs, and its timeline where the pass is observed."""
    variables = {}
    if options.fusion_threshold_mb is not None:
        variables["HOROVOD_FUSION_THRESHOLD"] = str(round(options.fusion_threshold_mb * 2**20))
    if options.cycle_time_ms is not None:
        variables["HOROVOD_CYCLE_TIME"] = str(options.cycle_time_ms)
    if options.cache_capacity is not None:
        variables["HOROVOD_CACHE_CAPACITY"] = str(options.cache_capacity)
    if record.mode != Mode.THROUGHPUT:
        variables["HOROVOD_TIMELINE"] = "DYNAMIC"
    if record.mode == Mode.ATTRIBUTION:
        variables["HOROVOD_CACHE_CAPACITY"] = "0"
    return variables


def parse_variables(flag: str, given: Sequence[str]) -> dict[str, str]:
    """The variables of ``NAME=VALUE`` texts; the last of one name counts.

    Raises:
        UsageError: As ``variable_pairs``.
    """
    return dict(variable_pairs(flag, given))


def variable_pairs(flag: str, given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Names and values of ``NAME=VALUE`` texts, in their order; a name may occur several times.

    Raises:
        UsageError: A text has no name or no ``=``, names a variable that hvdprof sets itself, or
            gives DDP a value that it cannot have.
    """
    found: list[tuple[str, str]] = []
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(
                f"{flag} {text!r} is not NAME=VALUE.", hint=f"{flag} HOROVOD_CYCLE_TIME=1"
            )
        if sets_itself(name):
            raise UsageError(
                f"{flag} {name}: hvdprof sets this variable itself in every launch.",
                hint="Omit it.",
            )
        _check_argument(flag, name, value)
        found.append((name, value))
    return tuple(found)


def _check_argument(flag: str, name: str, value: str) -> None:
    if name not in DDP_ARGUMENTS:
        return
    try:
        ddp_argument(name, value)
    except ValueError as error:
        example = "25" if name == BUCKET_CAP else "1"
        raise UsageError(f"{flag}: {error}.", hint=f"{flag} {name}={example}") from error

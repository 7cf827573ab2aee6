"""The doctor's lines about variables of this shell that change what is measured."""

from hvdprof.machine.doctor.check_result import Finding, Line
from hvdprof.machine.doctor.survey import Survey

_OFF = frozenset({"", "0", "false", "off", "no"})
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
# A variable, the values that disturb (none named: every value but "off"), and how.
_DISTURBING = (
    ("HOROVOD_CACHE_CAPACITY", ("0",), "every step negotiates every tensor anew"),
    ("HOROVOD_LOG_LEVEL", ("trace", "debug", "info"), "every collective writes to the terminal"),
    ("HOROVOD_TIMELINE_MARK_CYCLES", (), "every cycle is written to the timeline"),
    ("HOROVOD_DISABLE_GROUP_FUSION", (), "groups are not fused"),
    ("HOROVOD_STALL_CHECK_DISABLE", (), "a stalled rank is never named"),
    ("NCCL_DEBUG", ("INFO", "TRACE", "ABORT"), "NCCL writes to the terminal"),
    ("NCCL_P2P_DISABLE", (), "GPUs of a host talk through its memory"),
    ("NCCL_IB_DISABLE", (), "hosts talk over TCP although they may have InfiniBand"),
    ("CUDA_LAUNCH_BLOCKING", (), "computing and communicating cannot overlap"),
)


def check_threads(survey: Survey) -> Finding:
    """How many threads each rank of a script will start."""
    line, cores = Line("threads", "Threads"), survey.host["num_cores"]
    given = {name: survey.environment.get(name) for name in _THREAD_VARIABLES}
    listed = ", ".join(f"{name}={value}" for name, value in given.items() if value)
    if not listed:
        return line.unset(
            f"OMP_NUM_THREADS is not set: every rank of a script of yours starts {cores} threads "
            "(hvdprof sets it for its own runs)",
            "export OMP_NUM_THREADS=1",
        )
    numbers = [int(value) for value in given.values() if value and value.isdigit()]
    if any(number > cores for number in numbers):
        return line.risk(f"{listed}, more than the {cores} usable cores", "unset OMP_NUM_THREADS")
    return line.found(listed)


def check_timeline(survey: Survey) -> Finding:
    """A timeline that is on for every job slows each of them and writes to one file."""
    line, value = Line("timeline", "HOROVOD_TIMELINE"), survey.environment.get("HOROVOD_TIMELINE")
    if value:
        detail = f"{value}: every job of this shell writes a timeline, which costs time"
        return line.risk(detail, "unset HOROVOD_TIMELINE")
    return line.found("not set: no timeline slows the measurement")


def check_autotune(survey: Survey) -> Finding:
    """Autotuning changes fusion and cycle time while a run is measured."""
    line, value = Line("autotune", "HOROVOD_AUTOTUNE"), survey.environment.get("HOROVOD_AUTOTUNE")
    if value is not None and value.lower() not in _OFF:
        detail = f"{value}: fusion and cycle time change while the run is measured"
        return line.risk(detail, "unset HOROVOD_AUTOTUNE")
    return line.found("off: fusion and cycle time stay fixed")


def check_job_variables(survey: Survey) -> Finding:
    """Variables of a launcher: this shell is a rank itself, and new ranks would inherit them."""
    line = Line("job_variables", "Shell of a job")
    present = survey.launcher_variables
    if present:
        detail = f"{', '.join(present)} set: this shell is itself a rank of a job"
        return line.risk(detail, f"unset {' '.join(present)}")
    return line.found("no: no variable of a launcher is set")


def check_settings(survey: Survey) -> Finding:
    """Other settings that change what is measured."""
    line = Line("settings", "Other settings")
    wrong = [(name, why) for name, values, why in _DISTURBING if _is_on(survey, name, values)]
    if wrong:
        listed = "; ".join(f"{name}={survey.environment[name]}: {why}" for name, why in wrong)
        return line.risk(
            listed,
            "unset " + " ".join(name for name, _ in wrong),
            disturbs_bench=", ".join(f"{name}={survey.environment[name]}" for name, _ in wrong),
        )
    horovod = [name for name in survey.environment if name.startswith(("HOROVOD_", "NCCL_"))]
    return line.found(f"set: {', '.join(horovod)}" if horovod else "none set")


def _is_on(survey: Survey, name: str, values: tuple[str, ...]) -> bool:
    value = survey.environment.get(name)
    if value is None:
        return False
    if values:
        return value.lower() in {each.lower() for each in values}
    return value.lower() not in _OFF

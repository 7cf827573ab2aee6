"""Every format of files that hvdprof reads: what it is called, how it is attached, what it shows.

What the analysis says of each is declared in ``analyze/files/source_answers.py``.
"""

from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase

from hvdprof.model.file_page import PHASE_LOG, PROFILER_TRACE
from hvdprof.rundir.attached import AttachedKind


class Role(Enum):
    """What a fact is to its reader: bad news, a cause, a share of time, a limit of trust ..."""

    BAD = "bad"
    CAUSE = "cause"
    SHARE = "share"
    BANDWIDTH = "bandwidth"
    DOUBT = "doubt"
    OTHER = "other"
    TRUST = "trust"


@dataclass(frozen=True, slots=True)
class ShownFact:
    """A fact on the first screen, by its name and role; omitted where it is not known.

    ``text``, ``detail`` and the title of what limits trust hold facts in braces with a form behind
    a colon, such as ``{num_blocked:other rank} blocked``. Of the parts of a detail, which
    ``|`` parts, one with an unknown fact is omitted. A doubt is one, and trust is limited, only
    ``below`` a number or the fact of that name; a fact is omitted where another one, ``unless``,
    is known. What is bad is omitted where it is 0 or ``no``.
    """

    fact: str
    role: Role
    title: str = ""
    text: str = ""
    details: tuple[str, ...] = ()
    below: str | float = ""
    unless: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """One format.

    Attributes:
        kinds: What FILES calls such files; ``*`` stands for the name of a tool.
        called: Its name in a list.
        attached: As what `hvdprof attach` keeps it; None where it does not.
        shown: Its facts on the first screen.
        why_not: What to do instead of attaching it.
    """

    kinds: tuple[str, ...]
    called: str
    attached: AttachedKind | None
    shown: tuple[ShownFact, ...] = ()
    why_not: str = ""


_BAD, _CAUSE, _SHARE, _BANDWIDTH, _DOUBT, _OTHER, _TRUST = Role
# fmt: off
TIMELINE = Source(
    ("Horovod timeline",), "a Horovod timeline (.json, .gz, .zst)",
    AttachedKind.TIMELINE, (
        ShownFact("num_pending", _BAD, "Pending at the end", "{num_pending:tensor}",
            ("{num_pending:text}",)),
        ShownFact("waiting_share", _CAUSE, "waiting for the last rank",
            details=(", mostly rank {most_waited_for}",)),
        ShownFact("executing_steady_share", _CAUSE, "collectives"),
        ShownFact("negotiating_share", _CAUSE, "negotiation", unless="waiting_share"),
        ShownFact("negotiating_share", _SHARE, "Negotiation",
            "{negotiating_share:percent} of the time", ("p95 {negotiation_p95_ns:ms}",)),
        ShownFact("payload_bytes_per_s", _BANDWIDTH, "Payload bandwidth",
            "{payload_bytes_per_s:size}/s", ("payload divided by time in collectives",)),
        ShownFact("executing_steady_share", _SHARE, "Collectives",
            "{executing_steady_share:percent} of the steady part", ("p95 {execution_p95_ns:ms}",)),
        ShownFact("executing_share", _SHARE, "Collectives",
            "{executing_share:percent} of the whole file", ("p95 {execution_p95_ns:ms}",),
            unless="executing_steady_share"),
    ))
TRACE = Source(
    (f"{PROFILER_TRACE}*",), "traces of torch.profiler",
    AttachedKind.TRACE)
PHASES = Source(
    (PHASE_LOG,), "phase logs of torchtitan",
    AttachedKind.PHASE_LOG)
FLIGHT_RECORDER = Source(
    ("PyTorch Flight Recorder dump",), "dumps of the Flight Recorder",
    AttachedKind.RECORDING, (
        ShownFact("hang_ranks", _BAD, "Hang", "{hang_ranks:ranks}",
            ("{num_blocked:other rank} blocked",)),
        ShownFact("missing_dumps", _TRUST, "no dump of {missing_dumps}"),
    ))
NSYS = Source(
    ("export of Nsight Systems (SQLite)",), "an export of Nsight Systems",
    AttachedKind.RECORDING, (
        ShownFact("exposed_share", _SHARE, "Exposed communication", "{exposed_share:percent}",
            ("most of one GPU",)),
    ))
OUTPUT = Source(
    ("Horovod log", "Horovod stall warnings", "output of a job", "time-outs of PyTorch's watchdog"),
    "output of Horovod, of PyTorch's watchdog and of launchers",
    AttachedKind.OUTPUT, (
        ShownFact("num_timeouts", _BAD, "Collective timeouts", "{num_timeouts:count}",
            ("{timeout_operations}", " on {timeout_ranks:ranks}")),
        ShownFact("num_stall_warnings", _BAD, "Stall warnings", "{num_stall_warnings:count}",
            ("not submitted by {missing_ranks:ranks}", ", for {waited_s:seconds} or more")),
        ShownFact("process_end", _BAD, "First end of a process"),
    ))
RAS = Source(
    ("NCCL RAS report", "NCCL RAS report (JSON)"), "a RAS report of NCCL",
    AttachedKind.RECORDING, (
        ShownFact("silent_ranks", _BAD, "Without an answer", "{silent_ranks:ranks}",
            ("in the RAS report of NCCL",)),
        ShownFact("behind_ranks", _BAD, "Ranks behind", "{behind_ranks:ranks}",
            ("in the RAS report of NCCL",), unless="silent_ranks"),
    ))
STACKS = Source(
    ("stacks of processes", "py-spy dump (JSON)"), "stacks of ranks (py-spy, gdb, faulthandler)",
    AttachedKind.OUTPUT)
FR_TRACE = Source(
    ("report of PyTorch's fr_trace",), "a report of fr_trace",
    AttachedKind.OUTPUT)
NCCL_TESTS = Source(
    ("nccl-tests output", "nccl-tests output (JSON)"), "output of nccl-tests",
    AttachedKind.OUTPUT, (
        ShownFact("num_wrong", _BAD, "Result", "failed", ("{num_wrong:wrong element}",)),
        ShownFact("failed", _BAD, "Result", "failed"),
        ShownFact("peak_busbw_gb_s", _BANDWIDTH, "Peak busbw",
            details=("at {peak_size_bytes:size}",)),
        ShownFact("avg_busbw_gb_s", _BANDWIDTH, "Average busbw", details=("over all sizes",)),
    ))
BENCH = Source(
    ("output of all_reduce_bench.py",), "output of all_reduce_bench.py",
    AttachedKind.OUTPUT)
INSPECTOR = Source(
    ("NCCL Inspector log",), "logs of NCCL's Inspector", AttachedKind.RECORDING)
COMMS = Source(
    ("DeepSpeed comms log", "DeepSpeed comms summary (JSON)"), "DeepSpeed's comms logger",
    AttachedKind.OUTPUT)
TRAINING = Source(
    ("Megatron log", "NeMo log", "DeepSpeed timers"),
    "logs of Megatron and NeMo, timers of DeepSpeed",
    AttachedKind.OUTPUT, (ShownFact("iteration_median_ns", _OTHER, "Iteration, median"),))
AUTOTUNING = Source(
    ("autotuning log",), "an autotuning log", AttachedKind.OUTPUT, (
        ShownFact("best_score", _OTHER, "Best score of autotuning",
            details=("reduced bytes per time",)),
    ))
RATES = Source(
    ("* output", "throughput lines"), "rates that benchmarks and training tools print",
    AttachedKind.OUTPUT, (
        ShownFact("total_samples_per_s", _OTHER, "Throughput", details=("total as printed",)),
    ))
THROUGHPUTS = Source(
    ("throughput table",), "a table of (np, samples/s)", AttachedKind.OUTPUT)
NCCL_LOG = Source(
    ("NCCL log",), "logs of NCCL (NCCL_DEBUG=INFO)", AttachedKind.NCCL_LOG, (
        ShownFact("num_problems", _DOUBT, "NCCL warnings and errors", "{num_problems:count}"),
        ShownFact("num_complete", _DOUBT, "Inits completed",
            "{num_complete:count} of {num_nccl_ranks:count}",
            ("communicator inits of the ranks in the log",), below="num_nccl_ranks"),
        ShownFact("transports", _OTHER, "NCCL transports"),
        ShownFact("num_not_understood", _TRUST,
            "{num_not_understood:count} of {num_nccl_lines:count} NCCL lines not understood"),
    ))
RECORDER = Source(
    ("recorder file",), "a recorder file of hvdprof", None, (
        ShownFact("blocked_share", _SHARE, "Exposed communication", "{blocked_share:percent}",
            ("of the steady steps, all ranks",)),
        ShownFact("step_median_ns", _OTHER, "Step, median"),
        ShownFact("num_ranks", _OTHER, "Ranks recorded"),
        ShownFact("num_steps", _OTHER, "Steps", details=("of all ranks",)),
        ShownFact("num_steps", _TRUST, "only {num_steps:step}", below=10),
        ShownFact("ended", _TRUST, "not every rank ended on its own", below="num_ranks"),
    ), "It belongs to a run directory: analyze that, or the file alone.")

SOURCES = (
    TIMELINE, TRACE, PHASES, FLIGHT_RECORDER, NSYS, OUTPUT, RAS, STACKS, FR_TRACE, NCCL_TESTS,
    BENCH, INSPECTOR, COMMS, TRAINING, AUTOTUNING, RATES, THROUGHPUTS, NCCL_LOG, RECORDER,
)
"""One entry for each format; their facts stand on a first screen in this order."""
# fmt: on


def source_of(kind: str) -> Source | None:
    """The format of files that FILES calls so; None for text, archives and what is not read.

    Args:
        kind: One kind alone; a file that holds several is of none.
    """
    for source in SOURCES:
        if kind in source.kinds:
            return source
    if "," in kind:
        return None
    known = (one for one in SOURCES if any(fnmatchcase(kind, name) for name in one.kinds))
    return next(known, None)


def called(*kinds: AttachedKind) -> str:
    """The names of all formats, or of those that are attached so, in one list."""
    return ", ".join(one.called for one in SOURCES if not kinds or one.attached in kinds)

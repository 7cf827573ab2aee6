"""Failures whose cause is known, and the wordings by which launchers report a rank that ended."""

import re
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

# Of the kernel, Slurm, Kubernetes and shells.
OUT_OF_MEMORY = (
    r"\boom[-_ ]kill|OOMKilled|Out of memory: Killed process|"
    r"^(?:\S+: line \d+: +\d+ )?Killed\b(?: {2,}\S.*)?$|\bexit(?:ed)?\b.{0,30}\b137\b"
)
"""A line on a process that was killed, mostly for lack of memory."""

USAGE_ERROR = (
    r"(?:^|: )[\w./-]+: error: "
    r"(?:unrecognized arguments|the following arguments|argument |one of the arguments|ambiguous)"
)
"""The last line of ``argparse``, which ends a script with exit code 2."""

UNREACHABLE = r"are unable to reach each other for"
"""The help of Open MPI on hosts without a common network."""

HOROVODRUN_EXIT = re.compile(r"Process (?P<rank>\d+) exit with status code (?P<code>\d+)")
"""The line of ``horovodrun --gloo``, elastic or not, for each process that failed."""

USE_TORCHRUN = "start it with torchrun: hvdprof run --launcher torchrun"
"""What to do about a script of torch.distributed that Horovod's launcher started."""

_OF_TORCHRUN = r"(?:(?:LOCAL_)?(?:RANK|WORLD_SIZE)|MASTER_(?:ADDR|PORT))"

_DESCRIBED_SIGNALS = {
    "Hangup": 1,
    "Interrupt": 2,
    "Quit": 3,
    "Illegal instruction": 4,
    "Aborted": 6,
    "Bus error": 7,
    "Floating point exception": 8,
    "Killed": 9,
    "Segmentation fault": 11,
    "Terminated": 15,
}
"""How Slurm names signals, with their numbers on Linux."""

_SIGNAL_NUMBERS = {member.name: int(member) for member in signal.Signals}
_PATTERNS = (
    # Open MPI, signals: one line in version 4, two in version 5.
    re.compile(r"process rank (?P<rank>\d+) with PID .* exited on\s+signal (?P<signal>\d+)"),
    # Exit codes of Open MPI 4 and 5, of horovod.run and of horovod.spark.run.
    re.compile(
        r"Process name: (?:\[\[\d+,\d+\],|\[\S+,|)(?P<rank>\d+)\]?\s+Exit code:\s+(?P<code>\d+)"
    ),
    # Open MPI, of a rank that ended as by os._exit(0): no code says so.
    re.compile(
        r"has exited due to process rank (?P<rank>\d+) with PID \d+ on\s+node \S+ "
        r"(?P<improper>exiting improperly)"
    ),
    HOROVODRUN_EXIT,
    # torchrun, which ends the other ranks after the first.
    re.compile(
        r"Root Cause \(first observed failure\):.*?rank\s+: (?P<rank>\d+).*?"
        r"exitcode\s+: (?:-(?P<signal>\d+)|(?P<code>\d+))",
        re.DOTALL,
    ),
    # torchrun's agent on each host, which names the rank by its number on that host.
    re.compile(
        r"failed \(exitcode: (?:-(?P<signal>\d+)|(?P<code>\d+))\) local_rank: \d+ "
        r"\(pid: (?P<pid>\d+)\)"
    ),
    # Cray's PALS.
    re.compile(r"\brank (?P<rank>\d+) died from signal (?P<signal>\d+)"),
    re.compile(r"\brank (?P<rank>\d+) exited with code (?P<code>[1-9]\d*)"),
    # torch.multiprocessing.spawn.
    re.compile(
        r"ProcessExitedException: process (?P<rank>\d+) terminated with signal "
        rf"(?P<named>{'|'.join(sorted(_SIGNAL_NUMBERS))})"
    ),
    # Slurm, which ends the other tasks after the first; one that never ran is no killed one.
    re.compile(r"srun: error: tasks? (?P<rank>\d+)\S* launch failed: (?P<why>[^\n]+)"),
    re.compile(r"srun: error: \S+ tasks? (?P<rank>\d+)\S*: Exited with exit code (?P<code>\d+)"),
    re.compile(
        r"srun: error: \S+ tasks? (?P<rank>\d+)\S*: "
        rf"(?P<described>{'|'.join(_DESCRIBED_SIGNALS)})(?: \(core dumped\))?$",
        re.MULTILINE,
    ),
    # Hydra: signals have a line behind the frame.
    re.compile(
        r"BAD TERMINATION (?:.*?PID (?P<pid>\d+) )?.*?EXIT CODE: (?P<code>\d+)"
        r"(?:.*?EXIT STRING: [^\n]*\(signal (?P<signal>\d+)\))?",
        re.DOTALL,
    ),
)


@dataclass(frozen=True, slots=True)
class KnownCause:
    """A pattern in the reason of a failure or in what was printed, its cause, and what to do.

    ``{name}`` in cause and action stands for that group of the pattern. ``fails_again`` says that
    the same launch fails again until something is changed, ``in_reason`` that a printed line does
    not show it: programs print the same as a warning.
    """

    pattern: re.Pattern[str]
    cause: str
    action: str
    fails_again: bool = False
    in_reason: bool = False


def _error(pattern: str, cause: str, action: str, *, fails_again: bool = True) -> KnownCause:
    return KnownCause(re.compile(pattern), cause, action, fails_again, in_reason=True)


KNOWN_CAUSES = (
    KnownCause(
        re.compile(rf"ended by SIGKILL|{OUT_OF_MEMORY}"),
        "killed from outside, often by the kernel when memory runs out",
        "see dmesg; lower the batch size or the ranks per host",
    ),
    KnownCause(
        re.compile(r"ended by SIGSEGV"),
        "a crash in native code; under Gloo often a host name that cannot be looked up",
        "run hvdprof doctor on that host",
    ),
    KnownCause(
        re.compile(r"CUDA out of memory|OutOfMemoryError"),
        "the GPU has too little memory",
        "lower the batch size; nvidia-smi shows what else uses it",
    ),
    KnownCause(
        re.compile(USAGE_ERROR),
        "the script rejects its arguments",
        "correct them; the script lists its options with --help",
        fails_again=True,
    ),
    _error(
        rf"environment variable {_OF_TORCHRUN} expected, but not set|KeyError: '{_OF_TORCHRUN}'",
        "the script expects the variables of torchrun",
        USE_TORCHRUN,
    ),
    _error(
        r"No module named '?horovod\b",
        "Horovod is not installed for the Python of the ranks",
        "hvdprof install-horovod",
    ),
    _error(
        r"'Variable' object has no attribute 'ref'",
        "Horovod 0.28.1 as published does not know Keras 3 (TensorFlow 2.16 and later)",
        "hvdprof install-horovod --tensorflow --force",
    ),
    _error(
        r"unexpected keyword argument 'experimental_run_tf_function'",
        "Keras 3 does not take this argument of compile()",
        "remove it, or stay with Keras 2: pip install tf_keras, and set TF_USE_LEGACY_KERAS=1",
    ),
    _error(
        r"Attempt to convert a value \(PerReplica|with an unsupported type .*PerReplica",
        "fit() of Keras 3 does not train with several workers of tf.distribute",
        "stay with Keras 2 for it: pip install tf_keras, and set TF_USE_LEGACY_KERAS=1",
    ),
    _error(
        r"Collective ops must be configured at program startup",
        "the script makes its strategy of tf.distribute after tensors or datasets",
        "make the strategy first, right behind the imports",
    ),
    _error(
        r"ValueError: There must be at least one ps\.",
        "--launcher tf starts workers alone; this strategy needs a coordinator and a server, and "
        "its steps end where no callback sees them",
        "hvdprof bench --engine tf-parameter-server measures the strategy on models of its own",
    ),
    _error(
        r"No module named '?(?P<module>\w+)",
        "the Python of the ranks has no module {module}",
        "python -m pip install its package, or add its folder to PYTHONPATH",
    ),
    _error(
        r"ImportError: cannot import name .* from (?:.*module )?'(?P<module>[\w.]+)'",
        "{module} is of another version, or another file of its name is in the way",
        "see which it is: python -c 'import {module}; print({module}.__file__)'",
    ),
    _error(
        r"ImportError: (?P<file>\S+): cannot open shared object file",
        "the loader does not find this library",
        "add its folder to LD_LIBRARY_PATH; ldconfig -p lists what it finds",
    ),
    _error(
        r"FileNotFoundError: \[Errno 2\] [^']*'(?P<path>[^'{}]+)'",
        "no such file where the rank runs; a relative path begins where hvdprof was started",
        "check it: ls -d '{path}'",
        fails_again=False,
    ),
    _error(
        r"[Aa]ddress already in use|EADDRINUSE",
        "another process listens at this port, perhaps another launch of this run",
        "add --no-interleave; else end the process that ss -ltnp names",
        fails_again=False,
    ),
    _error(
        r"Too many open files|received 0 items of ancdata",
        "a limit of this user is reached: open files",
        "raise it: ulimit -n 65536",
        fails_again=False,
    ),
    _error(
        r"HTTP \w+ request failed too many times",
        "the rank does not reach the rendezvous server, which runs in horovodrun",
        "see whether horovodrun still ran; name the network that all hosts share by its "
        "--network-interfaces",
        fails_again=False,
    ),
    _error(
        r"Wait timeout after (?P<seconds>\d+) seconds for key",
        "another rank did not join within {seconds} s",
        "see its output; if it only starts slowly, raise HOROVOD_GLOO_TIMEOUT_SECONDS",
        fails_again=False,
    ),
    KnownCause(
        re.compile(UNREACHABLE),
        "Open MPI found no network that connects all hosts",
        "set OMPI_MCA_btl=tcp,self and OMPI_MCA_btl_tcp_if_include to the network of the hosts",
    ),
    KnownCause(
        re.compile(r"Executable: none"),
        "Open MPI 5 takes the -bind-to of horovodrun for the program",
        "use --launcher mpirun",
    ),
    KnownCause(
        re.compile(r"does not find an installed MPI"),
        "horovodrun does not recognise this MPI",
        "use --launcher mpirun",
    ),
    KnownCause(
        re.compile(r"opal_init failed"),
        "the ranks load another libmpi than their mpirun has",
        "run hvdprof doctor",
    ),
    KnownCause(
        re.compile(r"distributed collective mismatch in your code"),
        "ranks are in different collectives: one skips or reorders a call",
        "set TORCH_DISTRIBUTED_DEBUG=DETAIL, which names both calls",
    ),
    KnownCause(
        re.compile(r"No Adasum operation enabled"),
        "Horovod has no Adasum under Gloo",
        "use --controller mpi",
    ),
    KnownCause(
        re.compile(r"operator torchvision::nms does not exist"),
        "torchvision was built for another torch",
        "install the torchvision of this torch",
    ),
)
"""The first entry whose pattern matches counts."""


def known_cause(reason: str, printed: Iterable[str] = ()) -> KnownCause | None:
    """The first known cause that the reason shows, else that a printed line shows."""
    for place, text in enumerate((reason, *printed)):
        for known in KNOWN_CAUSES:
            match = None if place and known.in_reason else known.pattern.search(text)
            if match:
                named = match.groupdict()
                return replace(
                    known, cause=known.cause.format(**named), action=known.action.format(**named)
                )
    return None


def with_known_cause(reason: str, printed: Iterable[str] = ()) -> str:
    """The reason, followed by its cause and what to do where the cause is known."""
    known = known_cause(reason, printed)
    return f"{reason} ({known.cause}; {known.action})" if known else reason


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """The end of one process; None where the launcher does not say it.

    ``why_not_started`` is empty for a process that ran. Hydra names the ``pid`` alone.
    ``is_improper`` says that it ended without MPI_Finalize, with no code of its own.
    """

    rank: int | None
    pid: int | None
    exit_code: int | None
    signal: int | None
    why_not_started: str
    is_improper: bool = False


def process_exits(text: str) -> Iterator[ProcessExit]:
    """Every end of a process that a launcher reports in a text, by launcher, then by place."""
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            named = match.groupdict()
            yield ProcessExit(
                rank=_number(named.get("rank")),
                pid=_number(named.get("pid")),
                exit_code=_number(named.get("code")),
                signal=_DESCRIBED_SIGNALS.get(named.get("described") or "")
                or _SIGNAL_NUMBERS.get(named.get("named") or "")
                or _number(named.get("signal")),
                why_not_started=named.get("why") or "",
                is_improper="improper" in named,
            )


def _number(digits: str | None) -> int | None:
    # Damaged output may hold more digits than any rank, process or code has.
    return int(digits) if digits and len(digits) < 10 else None

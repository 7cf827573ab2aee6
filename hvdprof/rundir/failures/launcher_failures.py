"""Why a segment has no result, and why a launcher ended before its ranks began.

Each pattern is the first causal text of a real failure, which launchers bury below what followed
from it; it may span lines. Open MPI 4 and 5, Hydra, ``horovodrun``, ``torchrun``, ``srun`` and ssh.
"""

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum

_LONGEST = 300
"""Characters of the causal text that are shown."""

NO_PROGRESS = "no progress on any rank"
NOT_RETRIED = "not retried because"
STALL_KILL = "ended by --stall-kill: "
UNEQUAL = "unequal numbers of batches per rank"
WAS_INTERRUPTED = "it was interrupted"


@dataclass(frozen=True, slots=True)
class LauncherFailure:
    """A kind of failure. ``may_pass`` says that the same launch may succeed a moment later."""

    pattern: re.Pattern[str]
    cause: str
    action: str
    may_pass: bool = False


@dataclass(frozen=True, slots=True)
class KnownLauncherFailure:
    """A failure that was found in what a launch printed, with the causal text in one line."""

    kind: LauncherFailure
    text: str

    def sentence(self) -> str:
        """``TEXT (CAUSE; ACTION)``."""
        return f"{self.text} ({self.kind.cause}; {self.kind.action})"


def _kind(pattern: str, cause: str, action: str, *, may_pass: bool = False) -> LauncherFailure:
    return LauncherFailure(re.compile(pattern, re.MULTILINE), cause, action, may_pass)


_MKDIR = (
    r"call to mkdir was unable to create the desired directory:\s+Directory: +[^\n]+\s+Error: +"
)
_ENDED = "a limit of this user is reached"

LAUNCHER_FAILURES = (
    _kind(
        rf"{_MKDIR}No space left on device|"
        r"No usable temporary directory found|"
        r"^[^\n]*(?:/tmp|TMPDIR)[^\n]*No space left on device",
        "the folder for temporary files is full",
        "free space there, or set TMPDIR to a folder with space",
    ),
    _kind(
        rf"{_MKDIR}(?:Permission denied|Read-only file system|Not a directory)",
        "mpirun cannot write to the folder for temporary files",
        "set TMPDIR to a folder that you can write to",
    ),
    _kind(
        rf"{_MKDIR}[^\n]+",
        "mpirun could not make its session directory; another mpirun that ends may remove it",
        "start again; set TMPDIR to a folder of this job alone",
        may_pass=True,
    ),
    _kind(
        r"There are not enough slots available in the system to satisfy the \d+\s+slots|"
        r"Requested more processes \(\d+\) than there are available slots \(\d+\)|"
        r"^srun: error: [^\n]*More processors requested than permitted|"
        r"^srun: error: [^\n]*Requested node configuration is not available",
        "more ranks than slots",
        "give as many slots as ranks, --hosts h1:4,h2:4, or lower --np",
    ),
    _kind(
        r"^srun: error: Memory specification can not be satisfied",
        "more memory than a node has",
        "lower SLURM_MEM_PER_NODE or --mem",
    ),
    _kind(
        r"^srun: error: invalid partition specified: [^\n]+",
        "Slurm has no such partition",
        "sinfo lists them; set SLURM_PARTITION",
    ),
    _kind(
        r"^ssh: Could not resolve hostname [^\n]+|"
        r"unable to (?:resolve|find) (?:the )?host(?:name)?[^\n]*|"
        r"^srun: error: [^\n]*Invalid node name[^\n]*",
        "no host has that name",
        "correct --hosts or the hostfile; the name must resolve on this host",
    ),
    _kind(
        r"^[^\n]*Host key verification failed\.|REMOTE HOST IDENTIFICATION HAS CHANGED",
        "ssh does not know the key of the host",
        "log in once with ssh HOST and accept the key, or add it to ~/.ssh/known_hosts",
    ),
    _kind(
        r"^[^\n]*Permission denied \((?:publickey|password|keyboard)[^\n]*",
        "ssh does not let this user in without a password",
        "install a key: ssh-copy-id HOST",
    ),
    _kind(
        r"^kex_exchange_identification: [^\n]+|^ssh_exchange_identification: [^\n]+",
        "the host refuses more ssh connections at once",
        "raise MaxStartups in its sshd_config",
        may_pass=True,
    ),
    _kind(
        r"^ssh: connect to host [^\n]+",
        "the host does not answer ssh",
        "check that it is up and that ssh HOST works without a password",
    ),
    _kind(
        r"^Unable to connect to host [^\n]+|^SSH was not successful[^\n]*|"
        r"^[^\n]*unable to ssh to host[^\n]*",
        "a host cannot be reached by ssh",
        "check that ssh HOST true works without a password",
    ),
    _kind(
        r"^[^\n]*error while loading shared libraries: [^\n]+",
        "a shared library is missing where the rank runs",
        "install it on every host, or add its folder to LD_LIBRARY_PATH",
    ),
    _kind(
        r"Sorry!  You were supposed to get help about:[^\n]*|"
        r"^[^\n]*opal_init:startup:internal-failure[^\n]*|"
        r"^[^\n]*\b(?:orted|prted): (?:command not found|not found|No such file or directory)",
        "Open MPI is not where it was built for",
        "unset OPAL_PREFIX, or install the same Open MPI at the same path on every host",
    ),
    _kind(
        r"^srun: error: [^\n]*(?:mpi/pmix\w*|MPI plugin type|mpi plugin)[^\n]*|"
        r"OMPI was not built with SLURM(?:'s)?\s+PMI support|"
        r"^[^\n]*OPAL ERROR: Unreachable in file [^\n]*pmix[^\n]*|"
        r"^[^\n]*PMIX ERROR: (?:UNPACK-INADEQUATE-SPACE|OUTDATED|NOT-SUPPORTED)[^\n]*",
        "the PMIx of Slurm and that of Open MPI do not fit together",
        "srun --mpi=list names what Slurm has; use --launcher mpirun otherwise",
    ),
    _kind(
        r"The server socket has failed to listen on any local network address[^\n]*|"
        r"^[^\n]*(?:rendezvous|TCPStore|gloo)[^\n]*[Aa]ddress already in use[^\n]*",
        "another process listens at a port that this launch needs",
        "end that process, or use another port: --master-port, or what the script names",
        may_pass=True,
    ),
    _kind(
        r"unable to open the hostfile:\s+[^\n]+|unable to open host file: [^\n]+|"
        r"detected a parse error in the hostfile:\s+[^\n]+\s+It occured on line number \d+|"
        r"parse_host_files[\s\S]{0,400}?((?:FileNotFoundError|PermissionError): [^\n]+)|"
        r"^srun: error: [^\n]*error opening file [^\n]+",
        "the hostfile is not there, or cannot be read",
        "give its whole path; one host per line, h1 slots=4",
    ),
    _kind(
        r"unable to launch the specified application as it could not\s+access(?:\s+or execute)?\s+"
        r"an executable:\s+Executable: [^\n]+|"
        r"exec(?:vp error on file|ve\(\):) [^\n]+Permission denied|"
        r"subprocess_handler[\s\S]{0,2000}?(PermissionError: [^\n]+)",
        "the program may not be executed",
        "chmod +x it, or start it with its interpreter: python train.py",
    ),
    _kind(
        r"(unable to find the specified executable file)[\s\S]{0,600}?(Executable: none)$",
        "Open MPI 5 takes the -bind-to of horovodrun for the program",
        "use --launcher mpirun",
    ),
    _kind(
        r"(unable to find the specified executable file)[\s\S]{0,600}?(Executable: [^\n]+)|"
        r"exec(?:vp error on file|ve\(\):) [^\n]+No such file or directory|"
        r"can't open file '[^'\n]+': \[Errno 2\][^\n]*|"
        r"subprocess_handler[\s\S]{0,2000}?(FileNotFoundError: [^\n]+)",
        "there is no such program",
        "give its whole path; it must be there on every host",
    ),
    _kind(
        r"\w+ has detected an attempt to run as root",
        "mpirun refuses to run as root",
        "use another user, or set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    ),
    _kind(
        r"^[^\n]*Too many open files[^\n]*|"
        r"^[^\n]*system limit on number of pipes a process can open[^\n]*|"
        r"^[^\n]*PMIX_ERR_SYS_LIMITS_PIPES[^\n]*",
        f"{_ENDED}: open files",
        "raise it: ulimit -n 4096",
    ),
    _kind(
        r"^[^\n]*(?:fork|can't start new thread|pthread_create)[^\n]*"
        r"Resource temporarily unavailable[^\n]*|"
        r"^[^\n]*can't start new thread|^[^\n]*Unable to start listen thread|"
        r"system limit on number of children[^\n]*|^[^\n]*PMIX_ERR_SYS_LIMITS_CHILDREN[^\n]*",
        f"{_ENDED}: processes and threads",
        "end other processes, or raise it: ulimit -u",
    ),
    _kind(
        r"^[^\n]*(?:oom[-_ ]kill|Exceeded job memory limit|Exceeded step memory limit)[^\n]*",
        "the memory limit of the job or container is reached",
        "ask for more memory, or lower the batch size or the ranks per host",
    ),
    _kind(
        r"^srun: error: [^\n]*(?:Socket timed out|Unable to confirm allocation|"
        r"Unable to contact slurm controller|Zero Bytes were transmitted)[^\n]*",
        "Slurm's controller did not answer in time",
        "start again; ask the operators where it persists",
        may_pass=True,
    ),
)
"""The entry whose text stands first in what was printed counts."""


def launcher_failure(printed: str) -> KnownLauncherFailure | None:
    """The known failure whose causal text stands first in what a launch printed, if any."""
    # What a pattern has put into groups, else all that it matches.
    found = [
        (match.start(), number, ": ".join(filter(None, match.groups())) or match[0])
        for number, one in enumerate(LAUNCHER_FAILURES)
        if (match := one.pattern.search(printed)) is not None
    ]
    if not found:
        return None
    _, number, text = min(found)
    return KnownLauncherFailure(LAUNCHER_FAILURES[number], " ".join(text.split())[:_LONGEST])


class FailureKind(StrEnum):
    """What programs distinguish; most failures are of no kind.

    ``HUNG`` was ended by hvdprof because no rank made progress, ``STALLED`` because of a stall, or
    ended itself in one. ``NOT_RETRIED`` failed alike before, and was not started.
    """

    HUNG = "hung"
    STALLED = "stalled"
    UNEQUAL = "unequal-batches"
    INTERRUPTED = "interrupted"
    NOT_RETRIED = "not-retried"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a segment has no result: one sentence, and the evidence for it.

    ``kind`` is one of ``FailureKind``, or None; ``detail`` is the clause of the reason on which
    ranks had fewer batches. ``rank`` is the rank that failed first where that is known, and
    ``host`` where it ran; ``exit_code`` and ``signal`` are that process's; ``lines`` are the last
    lines printed that explain it.
    """

    reason: str
    kind: str | None = None
    detail: str = ""
    rank: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    lines: list[str] = field(default_factory=list)
    host: str | None = None


_BEGINNINGS = {
    NO_PROGRESS: FailureKind.HUNG,
    STALL_KILL: FailureKind.STALLED,
    WAS_INTERRUPTED: FailureKind.INTERRUPTED,
    NOT_RETRIED: FailureKind.NOT_RETRIED,
}


def with_kind(failure: Failure) -> Failure:
    """A failure of schema 1 or 2 of the manifest, whose reason alone states its kind.

    This is the one place that reads a reason.
    """
    _, is_unequal, what = failure.reason.partition(f"; {UNEQUAL}: ")
    if is_unequal:
        return replace(failure, kind=FailureKind.UNEQUAL, detail=f"{UNEQUAL}: {what}")
    kinds = (kind for begin, kind in _BEGINNINGS.items() if failure.reason.startswith(begin))
    is_stalled = " gave up waiting: " in failure.reason and "; stall " in failure.reason
    return replace(failure, kind=next(kinds, FailureKind.STALLED if is_stalled else None))

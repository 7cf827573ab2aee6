"""Failures whose cause is known: how they show, why they happen, what to do."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class KnownCause:
    """A pattern in the reason of a failure or in what was printed, its cause, and what to do."""

    pattern: re.Pattern[str]
    cause: str
    action: str


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
        "lower the batch size",
    ),
    KnownCause(
        re.compile(USAGE_ERROR),
        "the script rejects its arguments",
        "correct them; the script lists its options with --help",
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
    for text in (reason, *printed):
        for known in KNOWN_CAUSES:
            if known.pattern.search(text):
                return known
    return None


def with_known_cause(reason: str, printed: Iterable[str] = ()) -> str:
    """The reason, followed by its cause and what to do where the cause is known.

    Args:
        reason: How the launch or the rank failed.
        printed: Lines that may show the cause where the reason does not.
    """
    known = known_cause(reason, printed)
    return f"{reason} ({known.cause}; {known.action})" if known else reason

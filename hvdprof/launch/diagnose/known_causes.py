"""Failures whose cause is known: how the reason shows them, why they happen, what to do.

Tested in ``tests/launch/diagnose/test_explain.py``.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownCause:
    """A pattern in the reason of a failure, the cause that it shows, and what to do."""

    pattern: re.Pattern[str]
    cause: str
    action: str


KNOWN_CAUSES = (
    KnownCause(
        re.compile(r"ended by SIGKILL"),
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


def with_known_cause(reason: str) -> str:
    """The reason, followed by its cause and what to do where the cause is known."""
    for known in KNOWN_CAUSES:
        if known.pattern.search(reason):
            return f"{reason} ({known.cause}; {known.action})"
    return reason

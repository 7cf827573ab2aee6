import pytest

from hvdprof.rundir.known_causes import KNOWN_CAUSES, known_cause, with_known_cause


@pytest.mark.parametrize(
    ("reason", "cause", "action"),
    [
        ("rank 1 was ended by SIGKILL", "often by the kernel when memory", "see dmesg"),
        ("command terminated with exit code 137", "often by the kernel when memory", "see dmesg"),
        (
            "rank 0 ended with exit code 2: train.py: error: argument --lr: invalid float value",
            "rejects its arguments",
            "--help",
        ),
        (
            "At least one pair of MPI processes are unable to reach each other for",
            "no network",
            "OMPI_MCA_btl_tcp_if_include",
        ),
        ("rank 1 was ended by SIGSEGV", "host name that cannot be looked up", "hvdprof doctor"),
        (
            "rank 0 raised torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
            "too little memory",
            "batch size",
        ),
        ("the launch ended with exit code 66: Executable: none", "-bind-to", "mpirun"),
        (
            "the launch ended with exit code 1: horovodrun does not find an installed MPI.",
            "does not recognise",
            "mpirun",
        ),
        ("the launch ended with exit code 1: opal_init failed", "another libmpi", "doctor"),
        (
            "  what():  72 vs 4. Is there a distributed collective mismatch in your code?",
            "different collectives",
            "TORCH_DISTRIBUTED_DEBUG=DETAIL",
        ),
        ("rank 0 raised RuntimeError: No Adasum operation enabled.", "Gloo", "--controller mpi"),
        (
            "rank 0 raised RuntimeError: operator torchvision::nms does not exist",
            "another torch",
            "torchvision",
        ),
    ],
)
def test_known_causes_come_with_what_to_do(reason: str, cause: str, action: str) -> None:
    known = [entry for entry in KNOWN_CAUSES if entry.pattern.search(reason)]
    assert len(known) == 1
    assert cause in known[0].cause
    assert action in known[0].action
    assert with_known_cause(reason) == f"{reason} ({known[0].cause}; {known[0].action})"


def test_a_failure_of_unknown_cause_stays_as_it_is() -> None:
    assert with_known_cause("rank 1 raised ValueError: no") == "rank 1 raised ValueError: no"


def test_what_was_printed_shows_a_cause_that_the_reason_does_not() -> None:
    printed = ["starting", "opal_init failed", "a message"]
    reason = "the launch ended with exit code 1: a message"
    assert "another libmpi" in with_known_cause(reason, printed)
    assert known_cause(f"{reason}: Executable: none", printed) is not known_cause(reason, printed)

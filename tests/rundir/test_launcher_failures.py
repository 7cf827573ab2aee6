from pathlib import Path

import pytest

from hvdprof.rundir.failures.launcher_failures import LAUNCHER_FAILURES, launcher_failure

SAMPLES = Path(__file__).with_name("launcher_failures")
"""What launchers printed when each failure was provoked; paths and the host's name are replaced."""

FULL = "the folder for temporary files is full"
UNWRITABLE = "mpirun cannot write to the folder for temporary files"
SESSION = "mpirun could not make its session directory"
SLOTS = "more ranks than slots"
NAME = "no host has that name"
KEY = "ssh does not know the key of the host"
SSH = "the host does not answer ssh"
LIBRARY = "a shared library is missing"
PREFIX = "Open MPI is not where it was built for"
PMIX = "the PMIx of Slurm and that of Open MPI do not fit"
PORT = "another process listens at a port"
HOSTFILE = "the hostfile is not there, or cannot be read"
PERMISSION = "the program may not be executed"
NO_PROGRAM = "there is no such program"
ROOT = "mpirun refuses to run as root"
FILES = "a limit of this user is reached: open files"
PROCESSES = "a limit of this user is reached: processes and threads"

CAUSES = {
    "hvd_files": ("Too many open files", FILES),
    "hvd_hostfile": ("No such file or directory: 'nosuch.txt'", HOSTFILE),
    "hvd_refused": ("ssh: connect to host 127.0.0.2 port 22: Connection refused", SSH),
    "hvd_slots": ("(8) than there are available slots (2)", SLOTS),
    "hvd_unresolved": ("hostname nosuchhost", NAME),
    "hydra_files": ("pipe error (Too many open files)", FILES),
    "hydra_hostfile": ("unable to open host file: nosuch.txt", HOSTFILE),
    "hydra_lib": ("libgone.so", LIBRARY),
    "hydra_noexec": ("execvp error on file ./notexec.sh", PERMISSION),
    "hydra_notfound": ("execvp error on file nosuchprogram", NO_PROGRAM),
    "hydra_refused": ("127.0.0.2 port 22: Connection refused", SSH),
    "hydra_unresolved": ("hostname nosuchhost", NAME),
    "ompi4_files": ("Too many open files", FILES),
    "ompi4_files_ranks": ("number of pipes a process can open", FILES),
    "ompi4_hostfile": ("unable to open the hostfile: nosuch.txt", HOSTFILE),
    "ompi4_hostfile_syntax": ("bad.txt It occured on line number 1", HOSTFILE),
    "ompi4_lib": ("libgone.so", LIBRARY),
    "ompi4_noexec": ("Executable: ./notexec.sh", PERMISSION),
    "ompi4_noorted": ("orted: command not found", PREFIX),
    "ompi4_notfound": ("file: Executable: nosuchprogram", NO_PROGRAM),
    "ompi4_nproc": ("Unable to start listen thread", PROCESSES),
    "ompi4_refused": ("127.0.0.2 port 22: Connection refused", SSH),
    "ompi4_root": ("mpirun has detected an attempt to run as root", ROOT),
    "ompi4_session_dev": ("Error: No such file or directory", SESSION),
    "ompi4_session_exists": ("Error: Not a directory", UNWRITABLE),
    "ompi4_session_race": ("pid.22579 Error: No such file or directory", SESSION),
    "ompi4_slots": ("not enough slots available in the system to satisfy the 8 slots", SLOTS),
    "ompi4_tmpfull": ("Error: No space left on device", FULL),
    "ompi4_unresolved": ("hostname nosuchhost", NAME),
    "ompi5_files": ("Too many open files", FILES),
    "ompi5_files_ranks": ("PMIX_ERR_SYS_LIMITS_PIPES", FILES),
    "ompi5_hostfile": ("hostfile: /scratch/nosuch.txt", HOSTFILE),
    "ompi5_hostfile_syntax": ("It occured on line number 1", HOSTFILE),
    "ompi5_lib": ("libgone.so", LIBRARY),
    "ompi5_noexec": ("Executable: ./notexec.sh", PERMISSION),
    "ompi5_noorted": ("prted: No such file or directory", PREFIX),
    "ompi5_notfound": ("file: Executable: nosuchprogram", NO_PROGRAM),
    "ompi5_nproc": ("Unable to start listen thread", PROCESSES),
    "ompi5_refused": ("127.0.0.2 port 22: Connection refused", SSH),
    "ompi5_root": ("prterun has detected an attempt to run as root", ROOT),
    "ompi5_session_dev": ("Error: No such file or directory", SESSION),
    "ompi5_session_exists": ("Error: Not a directory", UNWRITABLE),
    "ompi5_slots": ("to satisfy the 8 slots", SLOTS),
    "ompi5_tmpfull": ("Error: No space left on device", FULL),
    "ompi5_unresolved": ("hostname nosuchhost", NAME),
    "srun_down": ("Unable to contact slurm controller", "Slurm's controller did not answer"),
    "srun_hostfile": ("error opening file ./nosuch.txt", HOSTFILE),
    "srun_lib": ("libgone.so", LIBRARY),
    "srun_mem": ("Memory specification can not be satisfied", "more memory than a node has"),
    "srun_node": ("Invalid node name specified", NAME),
    "srun_noexec": ("notexec.sh: Permission denied", PERMISSION),
    "srun_nopmi4": ("OPAL ERROR: Unreachable in file", PMIX),
    "srun_notfound": ("nosuchprogram: No such file or directory", NO_PROGRAM),
    "srun_part": ("invalid partition specified: nosuchpartition", "Slurm has no such partition"),
    "srun_pmix": ("plugin name for mpi/pmix_v9", PMIX),
    "ssh_hostkey": ("Host key verification failed", KEY),
    "ssh_hostkey_changed": ("REMOTE HOST IDENTIFICATION HAS CHANGED", KEY),
    "ssh_key": ("Permission denied (publickey", "ssh does not let this user in"),
    "ssh_startups": ("kex_exchange_identification: Connection closed", "the host refuses more"),
    "torchrun_lib": ("libgone.so", LIBRARY),
    "torchrun_noexec": ("PermissionError: [Errno 13] Permission denied", PERMISSION),
    "torchrun_notfound": ("can't open file '/scratch/nosuch.py'", NO_PROGRAM),
    "torchrun_port": ("port: 29611", PORT),
    "torchrun_workerport": ("port: 29612", PORT),
}
PASSING = {
    *("ompi4_session_dev", "ompi5_session_dev"),
    *("ompi4_session_race", "srun_down", "ssh_startups", "torchrun_port", "torchrun_workerport"),
}


def _printed(name: str) -> str:
    return (SAMPLES / f"{name}.txt").read_text()


def test_every_sample_has_its_cause() -> None:
    assert {path.stem for path in SAMPLES.iterdir()} == CAUSES.keys()


@pytest.mark.parametrize("name", sorted(CAUSES))
def test_the_first_causal_text_of_a_real_failure_is_found(name: str) -> None:
    text, cause = CAUSES[name]
    known = launcher_failure(_printed(name))
    assert known is not None
    assert text in known.text
    assert known.kind.cause.startswith(cause)
    assert known.kind.may_pass == (name in PASSING)
    assert known.sentence() == f"{known.text} ({known.kind.cause}; {known.kind.action})"
    assert len(known.text) <= 300 and "\n" not in known.text


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "Traceback (most recent call last):\nValueError: bad batch 40\n",
        "OSError: [Errno 98] Address already in use: my own web server\n",
        "epoch 1: 12 slots filled, 3 hosts\n",
        "FileNotFoundError: [Errno 2] No such file or directory: 'data.npz'\n",
        "torch.OutOfMemoryError: CUDA out of memory\n",
    ],
)
def test_what_scripts_print_is_no_failure_of_a_launcher(printed: str) -> None:
    assert launcher_failure(printed) is None


def test_every_kind_says_what_to_do_in_one_line() -> None:
    for one in LAUNCHER_FAILURES:
        assert one.cause and one.action
        assert not one.action.endswith(".") and "\n" not in one.action

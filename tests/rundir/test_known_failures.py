import pytest

from hvdprof.rundir.failures.known_failures import (
    KNOWN_CAUSES,
    USE_TORCHRUN,
    ProcessExit,
    known_cause,
    process_exits,
    with_known_cause,
)


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


@pytest.mark.parametrize(
    ("error", "cause", "action"),
    [
        (
            "ValueError: Error initializing torch.distributed using env:// rendezvous: environment "
            "variable MASTER_ADDR expected, but not set",
            "the script expects the variables of torchrun",
            USE_TORCHRUN,
        ),
        (
            "ValueError: There must be at least one ps.",
            "--launcher tf starts workers alone; this strategy needs a coordinator and a server, "
            "and its steps end where no callback sees them",
            "hvdprof bench --engine tf-parameter-server measures the strategy on models of its own",
        ),
        ("KeyError: 'LOCAL_RANK'", "the script expects the variables of torchrun", USE_TORCHRUN),
        (
            "ModuleNotFoundError: No module named 'apex.optimizers'",
            "the Python of the ranks has no module apex",
            "python -m pip install its package, or add its folder to PYTHONPATH",
        ),
        (
            "AttributeError: 'Variable' object has no attribute 'ref'",
            "Horovod 0.28.1 as published does not know Keras 3 (TensorFlow 2.16 and later)",
            "hvdprof install-horovod --tensorflow --force",
        ),
        (
            "TypeError: Trainer.compile() got an unexpected keyword argument "
            "'experimental_run_tf_function'",
            "Keras 3 does not take this argument of compile()",
            "remove it, or stay with Keras 2: pip install tf_keras, and set TF_USE_LEGACY_KERAS=1",
        ),
        (
            "RuntimeError: Collective ops must be configured at program startup",
            "the script makes its strategy of tf.distribute after tensors or datasets",
            "make the strategy first, right behind the imports",
        ),
        (
            "}) with an unsupported type (<class 'tensorflow.python.distribute.values.PerReplica'>"
            ") to a Tensor.",
            "fit() of Keras 3 does not train with several workers of tf.distribute",
            "stay with Keras 2 for it: pip install tf_keras, and set TF_USE_LEGACY_KERAS=1",
        ),
        (
            "ModuleNotFoundError: No module named 'horovod'",
            "Horovod is not installed for the Python of the ranks",
            "hvdprof install-horovod",
        ),
        (
            "ImportError: cannot import name 'x' from partially initialized module 'random' (most "
            "likely due to a circular import) (/job/random.py)",
            "random is of another version, or another file of its name is in the way",
            "see which it is: python -c 'import random; print(random.__file__)'",
        ),
        (
            "ImportError: libcudart.so.12: cannot open shared object file: No such file",
            "the loader does not find this library",
            "add its folder to LD_LIBRARY_PATH; ldconfig -p lists what it finds",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.bin'",
            "no such file where the rank runs; a relative path begins where hvdprof was started",
            "check it: ls -d 'data/train.bin'",
        ),
        (
            "OSError: [Errno 98] Address already in use",
            "another process listens at this port, perhaps another launch of this run",
            "add --no-interleave; else end the process that ss -ltnp names",
        ),
        (
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any "
            "local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE",
            "another process listens at this port, perhaps another launch of this run",
            "add --no-interleave; else end the process that ss -ltnp names",
        ),
        (
            "OSError: [Errno 24] Too many open files: '/dev/null'",
            "a limit of this user is reached: open files",
            "raise it: ulimit -n 65536",
        ),
    ],
)
def test_first_errors_of_a_script_come_with_a_command(error: str, cause: str, action: str) -> None:
    reason = f"rank 0 raised {error}"
    assert with_known_cause(reason) == f"{reason} ({cause}; {action})"
    # Programs print the same as a warning.
    assert known_cause("rank 0 ended with exit code 1 and no message", [error]) is None


def test_a_failure_of_unknown_cause_stays_as_it_is() -> None:
    assert with_known_cause("rank 1 raised ValueError: no") == "rank 1 raised ValueError: no"


def test_what_was_printed_shows_a_cause_that_the_reason_does_not() -> None:
    printed = ["starting", "opal_init failed", "a message"]
    reason = "the launch ended with exit code 1: a message"
    assert "another libmpi" in with_known_cause(reason, printed)
    assert known_cause(f"{reason}: Executable: none", printed) is not known_cause(reason, printed)


@pytest.mark.parametrize(
    ("text", "rank", "code", "signal"),
    [
        ("process rank 1 with PID 9 on node a exited on signal 9 (Killed).", 1, None, 9),
        ("process rank 3 with PID 9 on node a exited on\nsignal 6 (Aborted).", 3, None, 6),
        ("  Process name: [[34817,1],0]\n  Exit code:    1", 0, 1, None),
        ("   Process name: [prterun-a-1@1,15] Exit code:    3", 15, 3, None),
        ("Process name: 1\nExit code: 137", 1, 137, None),
        ("Process 2 exit with status code 7.", 2, 7, None),
        ("srun: error: node7: task 5: Exited with exit code 2", 5, 2, None),
        ("srun: error: node7: task 5: Killed", 5, None, 9),
        ("srun: error: n: task 1: Floating point exception (core dumped)", 1, None, 8),
        (
            "Root Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 1)\n"
            "  exitcode  : -9 (pid: 7)",
            1,
            None,
            9,
        ),
    ],
)
def test_the_end_of_a_process_by_each_launcher(
    text: str, rank: int, code: int | None, signal: int | None
) -> None:
    (ended,) = process_exits(f"before\n{text}\nafter\n")
    assert ended == ProcessExit(rank, None, code, signal, "")


def test_hydra_names_the_process_and_its_signal() -> None:
    frame = "=   BAD TERMINATION OF ONE\n=   PID 7 RUNNING AT a\n=   EXIT CODE: 9\n"
    assert list(process_exits(frame)) == [ProcessExit(None, 7, 9, None, "")]
    (ended,) = process_exits(frame + "YOUR APPLICATION: EXIT STRING: Killed (signal 9)\n")
    assert (ended.pid, ended.signal) == (7, 9)


def test_a_task_that_slurm_could_not_start_comes_with_the_reason() -> None:
    (ended,) = process_exits("srun: error: task 0 launch failed: Unspecified error\n")
    assert ended == ProcessExit(0, None, None, None, "Unspecified error")


@pytest.mark.parametrize("text", ["", "Process 3 started", "srun: error: vm: task 1: Odd words"])
def test_other_text_holds_no_end(text: str) -> None:
    assert list(process_exits(text)) == []


def test_a_damaged_number_is_left_out() -> None:
    (ended,) = process_exits("Process 99999999999 exit with status code 1")
    assert (ended.rank, ended.exit_code) == (None, 1)

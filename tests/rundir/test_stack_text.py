import pytest

from hvdprof.rundir.failures.stack_text import StackReader, Wait, main_thread, own_frame, wait_of

FAULTHANDLER = """\
Thread 0x00007f10 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f20 (most recent call first):
  <no Python frame>

Thread 0x00007f30 [MainThread] (most recent call first):
  File "/opt/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2810 \
in all_reduce
  File "/opt/env/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", line 81 in logged
  File "/home/ann/job/train.py", line 40 in mean_loss
  File "/home/ann/job/train.py", line 90 in <module>
"""
PY_SPY = """\
Process 812: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 812 (idle): "MainThread"
    wait (threading.py:331)
    get (queue.py:180)
    _MultiProcessingDataLoaderIter._get_data (torch/utils/data/dataloader.py:1275)
    batches (loop.py:12)
    <module> (train.py:90)
Thread 830 (active): "Thread-1"
    run (threading.py:982)
"""
GDB = """\
Thread 2 (Thread 0x7f01 (LWP 813) "pt_main"):
#0  0x00007f5 in ncclProxyProgress (arg=0x0) from /lib/libnccl.so.2

Thread 1 (Thread 0x7f02 (LWP 812) "python"):
#0  __futex_wait (private=0, cancel=true) at ./nptl/futex.c:57
#1  0x00007f5 in std::condition_variable::wait(std::unique_lock<std::mutex>&) ()
   from /lib/libstdc++.so.6
#2  0x00007f6 in c10d::Reducer::finalize_backward() () from /opt/lib/libtorch_cpu.so
#3  0x00007f7 in _PyEval_EvalFrameDefault (f=0x55, for file /job/train.py, line 19, in step ())
#4  0x00007f8 in main ()
"""


def read(text: str) -> StackReader:
    stacks = StackReader()
    for line in text.splitlines():
        stacks.take(line)
    return stacks


@pytest.mark.parametrize(
    ("text", "number", "wait", "operation", "place"),
    [
        (FAULTHANDLER, 3, Wait.COLLECTIVE, "all_reduce", "/home/ann/job/train.py:40 mean_loss"),
        (PY_SPY, 2, Wait.DATA, "", "loop.py:12 batches"),
        (GDB, 2, Wait.COLLECTIVE, "c10d::Reducer::finalize_backward", "/job/train.py:19 step"),
    ],
)
def test_main_thread_and_what_it_waits_in(
    text: str, number: int, wait: Wait, operation: str, place: str
) -> None:
    stacks = read(text)
    main = main_thread(stacks.threads)
    assert main is not None
    assert len(stacks.threads) == number
    assert wait_of(main.frames) == (wait, operation)
    assert own_frame(main.frames) == place


@pytest.mark.parametrize(
    ("frames", "wait", "operation"),
    [
        (["torch/autograd/graph.py:829 _engine_run_backward", "train.py:9 step"],
         Wait.BACKWARD, "backward"),
        (["/e/site-packages/torch/cuda/__init__.py:985 synchronize", "train.py:9 step"],
         Wait.SYNCHRONIZE, "synchronize"),
        (["libcuda.so.1: ??", "libcudart.so.12: cudaStreamSynchronize", "train.py:9 step"],
         Wait.SYNCHRONIZE, "cudaStreamSynchronize"),
        (["libnccl.so.2: ??", ".so: main"], Wait.COLLECTIVE, "libnccl"),
        ([".so: poll", ".so: PMPI_Allreduce", ".so: main"], Wait.COLLECTIVE, "MPI_Allreduce"),
        (["horovod/torch/mpi_ops.py:1257 synchronize", "train.py:9 step"],
         Wait.COLLECTIVE, "synchronize"),
        (["torch/distributed/distributed_c10d.py:1700 init_process_group", "train.py:2 <module>"],
         Wait.SETUP, "init_process_group"),
        (["torch/serialization.py:966 save", "train.py:9 step"], Wait.CHECKPOINT, ""),
        # A rank that waits for the one that writes the checkpoint waits.
        (["torch/distributed/distributed_c10d.py:4700 barrier", "train.py:9 save_checkpoint"],
         Wait.COLLECTIVE, "barrier"),
        # The script itself, below a call of torch: it is no wait.
        (["train.py:9 slow_hook", "torch/autograd/graph.py:829 _engine_run_backward"],
         Wait.OWN, ""),
        (["torch/utils/data/_utils/worker.py:358 _worker_loop", "train.py:9 <module>"],
         Wait.LAUNCHER, ""),
        (["torch/distributed/elastic/multiprocessing/api.py:500 _poll"], Wait.LAUNCHER, ""),
        # Every rank of a script with @record.
        (["train.py:9 step", "torch/distributed/elastic/multiprocessing/errors/__init__.py:7 run"],
         Wait.OWN, ""),
    ],
)  # fmt: skip
def test_wait_of_frames(frames: list[str], wait: Wait, operation: str) -> None:
    assert wait_of(frames) == (wait, operation)


def test_a_wrapped_frame_is_one_and_a_whole_one_is_never_glued() -> None:
    whole = FAULTHANDLER.replace(", line 40 in mean_loss", ", li\nne 40 in mean_loss")
    stacks = read(whole)
    assert stacks.num_joined == 1
    assert main_thread(stacks.threads) == main_thread(read(FAULTHANDLER).threads)


def test_frames_behind_output_of_another_process_are_not_of_the_thread() -> None:
    text = FAULTHANDLER.replace(
        ", line 81 in logged", ', li  File "/home/bob/other.py", line 7 in read'
    )
    stacks = read(text)
    main = main_thread(stacks.threads)
    assert main is not None
    assert [frame.rpartition(" ")[2] for frame in main.frames] == ["all_reduce"]
    assert stacks.num_orphans == 2


def test_two_backtraces_of_gdb_without_heads_are_two_threads() -> None:
    text = "#0  0x1 in poll () from /lib/libc.so.6\n#1  0x2 in main ()\n"
    assert [thread.frames for thread in read(text + text).threads] == [
        ["libc.so.6: poll", ".so: main"]
    ] * 2


@pytest.mark.parametrize(
    "text", ["", "Thread 0x1 (most recent call first):", "#1 in main ()\n", "#0 worker started\n"]
)
def test_without_frames_there_is_no_main_thread(text: str) -> None:
    assert main_thread(read(text).threads) is None

"""Stacks of ranks as debuggers print them: who waits in a collective, and who loads data."""

PLACES = {
    "reduce": (
        ("torch/distributed/distributed_c10d.py", 2810, "all_reduce"),
        ("train.py", 40, "mean_loss"),
        ("train.py", 90, "<module>"),
    ),
    "barrier": (
        ("torch/distributed/distributed_c10d.py", 4700, "barrier"),
        ("train.py", 55, "save"),
        ("train.py", 90, "<module>"),
    ),
    "backward": (
        ("torch/autograd/graph.py", 829, "_engine_run_backward"),
        ("train.py", 33, "train_step"),
        ("train.py", 90, "<module>"),
    ),
    "data": (
        ("train.py", 14, "read_sample"),
        ("torch/utils/data/_utils/fetch.py", 54, "fetch"),
        ("train.py", 90, "<module>"),
    ),
    "checkpoint": (
        ("torch/serialization.py", 966, "save"),
        ("train.py", 57, "save"),
        ("train.py", 90, "<module>"),
    ),
}


def faulthandler(place: str, address: int = 0x7F20) -> str:
    """The dump of one process by Python's faulthandler, with a second thread."""
    frames = "".join(
        f'  File "{file}", line {line} in {name}\n' for file, line, name in PLACES[place]
    )
    return (
        f"Current thread 0x{address:016x} (most recent call first):\n  <no Python frame>\n\n"
        f"Thread 0x{address + 64:016x} (most recent call first):\n{frames}"
    )


def py_spy(place: str, pid: int) -> str:
    """The text of ``py-spy dump``."""
    frames = "".join(f"    {name} ({file}:{line})\n" for file, line, name in PLACES[place])
    return (
        f"Process {pid}: python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
        f'Thread {pid} (idle): "MainThread"\n{frames}'
    )


def server_dump(places: dict[int, str], what: str = "dump_traceback") -> str:
    """A file of torch.distributed.debug; a place that is a number is the status of an answer."""
    sections = []
    for rank, place in places.items():
        head = f"=== Rank {rank}: http://node{rank // 2}:5{rank:04d}/handler/{what}? ==="
        text = f"Error: {place}" if place.isdecimal() else faulthandler(place, 0x7000 + 256 * rank)
        sections.append(f"{head}\n{text}")
    return "\n".join(sections)

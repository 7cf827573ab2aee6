import os
import subprocess
import sys

from hvdprof.launch.processes.marked_processes import memory_bytes, with_descendants

_PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
print(child.pid, flush=True)
sys.stdin.read()
child.communicate(b"end")
"""


def test_a_process_comes_with_all_below_it() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        assert with_descendants([parent.pid]) == [parent.pid, child]
        assert with_descendants([parent.pid, parent.pid, child]) == [parent.pid, child]
        both, one = memory_bytes([parent.pid, child]), memory_bytes([parent.pid])
        assert both > one > 1e6
        assert parent.pid in with_descendants([os.getpid()])
    finally:
        parent.communicate("")
    assert with_descendants([parent.pid]) == []
    assert memory_bytes([parent.pid]) == 0

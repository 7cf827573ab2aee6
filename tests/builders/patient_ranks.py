"""Ranks that sleep while they wait for others, where Horovod turns in a loop of ``sched_yield``.

A rank that waits for another one takes a whole core so. Two tests beside each other then take the
cores from one another, and from the analysis. With the library of this module in front, a yield is
a sleep of 0.2 ms: of what ranks do, only the processor time of their waits changes.
"""

import functools
import os
import shutil
import subprocess
import zlib

from tests.builders.places import ROOT

SOURCE = """\
#include <time.h>
int sched_yield(void) {
    struct timespec pause = {0, 200000};
    nanosleep(&pause, 0);
    return 0;
}
"""


@functools.cache
def patient_library() -> str:
    """The path of the library for ``LD_PRELOAD``; empty where there is no C compiler.

    It is made once, below ``build``, and stays: a process that starts after the tests would
    complain of a library that is gone, and one that is made anew is another one to hvdprof.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        return ""
    library = ROOT / "build" / f"patient_ranks_{zlib.crc32(SOURCE.encode()):08x}.so"
    if library.exists():
        return str(library)
    library.parent.mkdir(exist_ok=True)
    # Another worker may load it now.
    new = library.with_suffix(f".{os.getpid()}.so")
    command = [compiler, "-x", "c", "-O2", "-shared", "-fPIC", "-o", str(new), "-"]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    new.replace(library)
    return str(library)

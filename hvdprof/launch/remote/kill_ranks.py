"""``python -m hvdprof.launch.remote.kill_ranks FOLDER``: ends ranks that a host still runs.

A launcher that is ended, or loses its connection, may leave ranks behind on other hosts. They are
recognised by the folder of their recordings, which stands in their environment.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from hvdprof.launch.plan.environment import RECORDER_DIR
from hvdprof.launch.processes.marked_processes import end_marked
from hvdprof.rundir.layout import PassPaths


def main(arguments: Sequence[str] | None = None) -> int:
    """End the ranks that record into the folder of a pass; the exit code."""
    (folder,) = sys.argv[1:] if arguments is None else arguments
    end_marked(str(PassPaths(Path(folder)).recorder_folder), None, variable=RECORDER_DIR)
    return 0


if __name__ == "__main__":
    sys.exit(main())

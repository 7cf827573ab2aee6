"""The rank in the name of a file: ``rank.1/stdout``, ``rank-0.log``, ``trace_rank3.json.gz``.

Tested in ``tests/ingest/rundir/test_attached_run.py``.
"""

import re
from pathlib import Path

# rank.0/stdout of horovodrun and mpirun, rank-0.log, job_rank3.out; task.3 of srun.
_RANK_IN_NAME = re.compile(r"(?:^|[^A-Za-z])(?:rank|task)[._-]?(\d{1,6})(?!\d)", re.IGNORECASE)


def rank_in_name(path: Path) -> int | None:
    """The rank that a file's name or its folder's names; None where neither does."""
    for name in (path.name, path.parent.name):
        ranks = _RANK_IN_NAME.findall(name)
        if ranks:
            return int(ranks[-1])
    return None

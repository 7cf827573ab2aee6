"""Problems and versions that logs state, each kept once with its count.

Tested in ``tests/ingest/nccl/test_reader.py``.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import pandas as pd

from hvdprof.model.tables.nccl_call_tables import NCCL_PROBLEMS
from hvdprof.model.tables.nccl_tables import NCCL_VERSIONS

_MOST_PROBLEMS = 20_000


@dataclass(slots=True)
class Problem:
    """One problem and its repetitions."""

    kind: str
    code: int | None = None
    where: str = ""
    text: str = ""
    tag_rank: int | None = None
    host: str = ""
    pid: int | None = None
    count: int = 1
    file: str = ""
    line: int = 0
    last_line: int = 0
    process: int | None = None


@dataclass(slots=True)
class Stated:
    """One version as one process states it."""

    version: str
    build: str
    host: str
    pid: int | None
    count: int
    file: str
    line: int


class Troubles:
    """Problems and versions so far; the same text of the same process is counted, not repeated."""

    def __init__(self) -> None:
        self.num_dropped = 0
        self._problems: dict[tuple[object, ...], Problem] = {}
        self._versions: dict[tuple[object, ...], Stated] = {}

    def keep(self, problem: Problem) -> None:
        """Count a problem; beyond 20,000 different ones only their number is kept."""
        key = (problem.kind, problem.tag_rank, problem.host, problem.pid, problem.where)
        earlier = self._problems.get((*key, problem.text, problem.file))
        if earlier is not None:
            earlier.count += 1
            earlier.last_line = problem.line
        elif len(self._problems) < _MOST_PROBLEMS:
            problem.last_line = problem.line
            self._problems[(*key, problem.text, problem.file)] = problem
        else:
            self.num_dropped += 1

    def keep_version(self, stated: Stated) -> None:
        """Count a statement of a version."""
        key = (stated.version, stated.build, stated.host, stated.pid)
        earlier = self._versions.setdefault((*key, stated.file), stated)
        earlier.count += earlier is not stated

    def problems(self, progress: Sequence[tuple[str, int]]) -> pd.DataFrame:
        """The problems in the order in which they first appeared.

        Args:
            progress: Of each process, the file and line at which it last made progress.
        """
        rows = []
        for problem in self._problems.values():
            row = asdict(problem)
            process = row.pop("process")
            file, line = ("", 0) if process is None else progress[process]
            after = file == problem.file and line > problem.last_line
            rows.append({**row, "progress_line": line if after else None})
        return NCCL_PROBLEMS.frame(rows)

    def versions(self) -> pd.DataFrame:
        """The versions in the order in which they first appeared."""
        return NCCL_VERSIONS.frame([asdict(stated) for stated in self._versions.values()])

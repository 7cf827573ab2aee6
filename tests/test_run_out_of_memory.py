"""`hvdprof run` where the kernel really ends a rank, for lack of memory in a group of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hvdprof.api import analyze_run, load_run
from tests.builders import greedy_script

pytestmark = [pytest.mark.horovod, pytest.mark.root, pytest.mark.timeout(300)]

LIMIT = "1600M"
ROOT = Path("/sys/fs/cgroup")
KINDS = (
    (ROOT / "memory", "memory.limit_in_bytes"),
    (ROOT, "memory.max"),
)


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group with little memory; processes that write themselves into it share it."""
    parent, limit = next(
        ((folder, name) for folder, name in KINDS if (folder / "cgroup.procs").is_file()),
        (ROOT, ""),
    )
    made = parent / f"hvdprof-test-{os.getpid()}"
    try:
        made.mkdir()
        (made / limit).write_text(LIMIT)
    except OSError as error:
        if made.is_dir():
            made.rmdir()
        pytest.skip(f"needs root and control groups of memory: {error}")
    yield made
    made.rmdir()


def test_memory_is_named_where_the_kernel_ended_a_rank_for_it(group: Path, tmp_path: Path) -> None:
    own = ["run", "-np", "2", "-q", "--no-trace", "--controller", "gloo", "-o", str(tmp_path / "r")]
    command = [sys.executable, "-m", "hvdprof", *own, "--", "python", greedy_script.__file__]
    joined = ["sh", "-c", f"echo $$ > '{group}/cgroup.procs'; exec \"$@\"", "sh", *command]
    ended = subprocess.run(joined, capture_output=True, text=True, timeout=240)

    assert ended.returncode == 6, ended.stderr
    said = " ".join(ended.stdout.split())
    assert "rank 1 was ended by SIGKILL" in said
    assert "for lack of memory meanwhile" in said
    analysis = analyze_run(load_run(tmp_path / "r"))
    (failed,) = analysis.failed
    assert (failed.rank, failed.signal, failed.is_counted) == (1, "SIGKILL", True)
    assert failed.host
    # The steps before are a result.
    assert analysis.scaling["num_steps"].tolist()[0] >= 20
    assert (group / "cgroup.procs").read_text() == ""

import io
import os
import sys
from pathlib import Path

import pytest

from hvdprof.machine.install.child_process import run_logged
from tests.builders.running_command import wait_for


def test_lines_go_to_log_and_listener() -> None:
    log, heard = io.StringIO(), []
    program = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    code = run_logged([sys.executable, "-u", "-c", program], os.environ, log, heard.append)
    assert code == 3
    assert heard == ["out", "err"]
    assert log.getvalue().endswith("out\nerr\n")
    assert log.getvalue().startswith(f"$ {sys.executable}")


def test_a_program_that_is_not_there() -> None:
    log, heard = io.StringIO(), []
    assert run_logged(["/no/such/program"], {}, log, heard.append) == 127
    assert heard == ["/no/such/program: No such file or directory"]


def is_running(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return text.rsplit(")", 1)[1].split()[0] != "Z"


def test_an_interrupt_ends_everything_that_was_started() -> None:
    # A shell with a child of its own, as pip with its compilers.
    script = f'{sys.executable} -c "import time; time.sleep(3600)" & echo $!; wait'
    pids: list[int] = []

    def interrupt(line: str) -> None:
        pids.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_logged(["/bin/sh", "-c", script], os.environ, io.StringIO(), interrupt)
    wait_for(lambda: not is_running(pids[0]))

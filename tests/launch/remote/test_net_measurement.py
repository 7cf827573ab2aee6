import json
import sys
from pathlib import Path
from typing import Any

import pytest

from hvdprof.collect.net_probe import MARK
from hvdprof.errors import EnvironmentNotReadyError, UsageError
from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.remote.net_measurement import (
    BRIEF,
    THOROUGH,
    NetProbe,
    net_settings,
    recording_of,
    sizes_of,
)
from tests.builders.bench_settings import FOUR_CORES, bench_settings

SETTINGS = bench_settings(hosts="h1:4,h2:4,h3:4", sizes=(1, 12), controller="gloo")


class _Prints:
    """A launcher that prints a text, and errors, and ends with a code."""

    def __init__(self, text: str, errors: str = "", code: int = 0) -> None:
        written = f"sys.stdout.write({text!r}); sys.stderr.write({errors!r})"
        self._script = f"import sys; {written}; sys.exit({code})"

    def command(self, job: Job) -> list[str]:
        return [sys.executable, "-c", self._script]


def _probe(launcher: Any, **changes: Any) -> NetProbe:
    values = {"settings": SETTINGS, "mpi": None, "effort": BRIEF, "environment": {"PATH": "/bin"}}
    return NetProbe(launcher=launcher, **values | changes)


def _line(record: dict[str, Any], tag: str = "[1,0]<stdout>:") -> str:
    return f"{tag}{MARK}{json.dumps(record)}\n"


HOSTS = {"what": "hosts", "hosts": ["h1", "h2"]}
END = {"what": "end"}
TCP = {"what": "tcp", "from": 1, "to": 0, "size_bytes": 8, "times_ns": [5]}


def test_one_rank_on_every_host() -> None:
    job = _probe(_Prints("")).job()
    assert (job.size, job.hosts) == (3, "h1:1,h2:1,h3:1")
    words = " ".join(job.program)
    assert "hvdprof.collect.net_probe --sizes 1024,16384,131072,524288,2097152,4194304" in words
    assert words.endswith("--seconds 0.15 --np 3 --device cpu")
    assert job.environment["HOROVOD_DYNAMIC_PROCESS_SETS"] == "1"
    assert "PATH" in job.passed_on


def test_one_host_has_no_network() -> None:
    with pytest.raises(UsageError, match="two hosts or more"):
        _probe(_Prints(""), settings=bench_settings()).job()


@pytest.mark.parametrize("tag", ["", "[1,0]<stdout>:", "[0]<stdout>:", "0: "])
def test_records_are_found_behind_the_tags_of_launchers(tag: str) -> None:
    text = "".join(_line(one, tag) for one in (HOSTS, TCP, END))
    recording = _probe(_Prints("Loading modules\n" + text)).measure()
    assert recording.hosts == ["h1", "h2"]
    assert recording.records == [TCP]
    assert recording.controller == "gloo"


def test_a_torn_line_costs_its_own_size_alone() -> None:
    text = _line(HOSTS) + f"{MARK}{{what\n" + _line(TCP) + _line(END)
    recording = recording_of(text, SETTINGS)
    assert recording is not None
    assert recording.records == [TCP]


@pytest.mark.parametrize("text", ["", _line(HOSTS) + _line(TCP), _line(TCP) + _line(END)])
def test_an_unfinished_measurement_is_reported_with_its_last_lines(text: str) -> None:
    with pytest.raises(EnvironmentNotReadyError) as raised:
        _probe(_Prints(text, "Traceback\nRuntimeError: no route\n", 1)).measure()
    assert raised.value.message == (
        "The measurement of the network ended with exit code 1.\n"
        "  Traceback\n"
        "  RuntimeError: no route"
    )


def test_sizes() -> None:
    assert sizes_of("1M, 4,64k,4") == (4, 65_536, 1_048_576)
    assert THOROUGH.sizes[0] == 1024
    assert THOROUGH.sizes[-1] == 16 * 2**20


@pytest.mark.parametrize("text", ["", "x", "3", "2G", "-4", "1.5k", "k"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="not a size of a message"):
        sizes_of(text)


def test_the_file_stays_out_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _probe(_Prints(_line(HOSTS) + _line(END))).measure()
    assert list(tmp_path.iterdir()) == []


def test_nodes_that_only_their_launcher_reaches_are_measured_by_name() -> None:
    with pytest.raises(UsageError, match="measured by their names"):
        net_settings(None, FOUR_CORES, "jsrun")

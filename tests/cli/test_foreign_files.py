"""What other tools recorded, under each command that takes files."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from hvdprof.dashboards.pages import diagnosis
from hvdprof.errors import UnreadableInputError, UsageError
from tests.builders.flight_dumps import dump, write_dumps
from tests.builders.nsys_exports import write_export
from tests.builders.profiler_traces import TracedJob, write_traces
from tests.builders.served_dashboard import page_text
from tests.cli.test_convert import invoke

INSPECTED = {
    "header": {"id": "0xab", "rank": 0, "n_ranks": 2, "nnodes": 1},
    "metadata": {"inspector_output_format_version": "v4.0", "hostname": "node-1", "pid": 7},
    "coll_perf": {
        "coll": "AllReduce",
        "coll_sn": 3,
        "coll_msg_size_bytes": 2**20,
        "coll_exec_time_us": 100,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": 10.0,
        "coll_busbw_gbs": 15.0,
    },
}
RAS = """\
#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 2 ranks
  The missing ranks: 3,5

"""


def _dumps(folder: Path) -> Path:
    folder.mkdir()
    return write_dumps(folder, {0: dump(), 1: dump(enqueued=4, completed=4)})


def _json_dumps(folder: Path) -> Path:
    folder.mkdir()
    return write_dumps(folder, {0: dump(), 1: dump(enqueued=4, completed=4)}, as_json=True)


def _nsys(folder: Path) -> Path:
    return write_export(folder, [(0, 1000, 0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")])


def _inspector(folder: Path) -> Path:
    folder.write_text(json.dumps(INSPECTED) + "\n")
    return folder


def _ras(folder: Path) -> Path:
    folder.write_text(RAS)
    return folder


@pytest.fixture(
    params=[
        (_dumps, "rank_collectives"),
        (_json_dumps, "collective_progress"),
        (_nsys, "nsys_nccl_kernels"),
        (_inspector, "inspector_collectives"),
        (_ras, "collective_progress"),
    ],
    ids=["pickled dumps", "JSON dumps", "nsys", "inspector", "ras"],
)
def foreign(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    make: Callable[[Path], Path] = request.param[0]
    return make(tmp_path / "recorded"), request.param[1]


@pytest.mark.heavy
def test_analyze_names_the_file_first(foreign: tuple[Path, str]) -> None:
    result = invoke("analyze", foreign[0])
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) > 1


@pytest.mark.heavy
def test_convert_writes_its_table(foreign: tuple[Path, str], tmp_path: Path) -> None:
    assert invoke("convert", foreign[0], "-o", tmp_path / "tables").exit_code == 0
    assert (tmp_path / "tables" / f"{foreign[1]}.parquet").stat().st_size


@pytest.mark.slow
def test_sql_counts_its_rows(foreign: tuple[Path, str]) -> None:
    pytest.importorskip("duckdb", reason="the extra sql is not installed")
    counted = invoke("sql", foreign[0], f"SELECT count(*) > 0 AS any FROM {foreign[1]}")
    assert counted.stdout.split()[-1].lower() == "true"


@pytest.mark.heavy
def test_the_overview_of_the_dashboard_shows_it(foreign: tuple[Path, str]) -> None:
    assert "Traceback" not in page_text(diagnosis, foreign[0])


def test_export_writes_collectives_or_says_which_files_become_a_run(
    foreign: tuple[Path, str], tmp_path: Path
) -> None:
    trace = tmp_path / "trace.json"
    if foreign[0].is_dir() and next(foreign[0].iterdir()).name.startswith("dump_"):
        assert invoke("export", foreign[0], "-o", trace).exit_code == 0
        assert json.loads(trace.read_text())["otherData"]["recorder"] == "flight-recorder"
        return
    if foreign[1] == "nsys_nccl_kernels":
        assert invoke("export", foreign[0], "-o", trace).exit_code == 0
        assert json.loads(trace.read_text())["otherData"]["file"] == foreign[0].name
        return
    # Its logs are not verbose.
    is_inspector = foreign[1] == "inspector_collectives"
    reason = "without kernel times" if is_inspector else "is no run directory"
    with pytest.raises(UsageError, match=reason) as raised:
        invoke("export", foreign[0], "-o", trace)
    fix = "NCCL_INSPECTOR_DUMP_VERBOSE=1" if is_inspector else f"hvdprof convert {foreign[0]}"
    assert fix in str(raised.value.hint)
    assert not trace.exists()


@pytest.mark.heavy
def test_what_export_proposes_for_an_attached_run_works(
    foreign: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    assert invoke("attach", run, "--recording", foreign[0], "--np", "2").exit_code == 0
    with pytest.raises(UnreadableInputError, match="nothing to show on a time axis") as raised:
        invoke("export", run, "-o", "trace.json")
    hint = str(raised.value.hint)
    command = shlex.split(hint[hint.index("hvdprof ") :])[1:]
    assert invoke(*command).exit_code == 0
    assert (tmp_path / command[-1]).exists()


@pytest.mark.heavy
@pytest.mark.parametrize("option", ["--timeline", "--trace", "--nccl-log"])
def test_attach_says_what_the_file_is_not(
    foreign: tuple[Path, str], tmp_path: Path, option: str
) -> None:
    path = foreign[0]
    file = next(path.iterdir()) if path.is_dir() else path
    with pytest.raises(Exception) as raised:
        invoke("attach", tmp_path / "run", option, file)
    assert type(raised.value).__module__ == "hvdprof.errors"
    assert file.name in str(raised.value)
    assert not (tmp_path / "run").exists()


def _hung(folder: Path) -> Path:
    """Dumps of two ranks, of which rank 1 has not submitted call 6."""
    return write_dumps(folder, {0: dump(enqueued=6), 1: dump(late_ns=7)})


@pytest.mark.heavy
def test_the_gravest_file_of_a_folder_comes_first(tmp_path: Path) -> None:
    _nsys(tmp_path / "a.sqlite")
    _ras(tmp_path / "b.txt")
    (tmp_path / "c.txt").write_text("nothing known\n")
    _hung(tmp_path / "d")
    found = json.loads(invoke("analyze", tmp_path, "--format", "json").stdout)["files"]
    names = [Path(page["file"]).relative_to(tmp_path).as_posix() for page in found]
    assert names == ["d/dump_*", "b.txt", "a.sqlite", "c.txt"]
    assert found[0]["verdict"].startswith("Hang: ")
    text = invoke("analyze", tmp_path).stdout
    assert text.index("Hang: ") < text.index("a.sqlite")


@pytest.mark.heavy
def test_a_hang_leads_the_verdict_on_traces_beside_it(tmp_path: Path) -> None:
    write_traces(tmp_path, TracedJob(num_steps=3))
    _hung(tmp_path / "d")
    text = invoke("analyze", tmp_path).stdout
    assert text.startswith("Hang: rank 1 has not submitted")
    assert text.count("Hang: ") == 1
    assert "per step" in text
    found = json.loads(invoke("analyze", tmp_path, "--format", "json").stdout)
    assert found["verdict"]["sentence"].startswith("Hang: rank 1")


@pytest.mark.heavy
def test_a_hang_leads_the_verdict_on_attached_files(tmp_path: Path) -> None:
    _hung(tmp_path / "d")
    export = _nsys(tmp_path / "a.sqlite")
    invoke("attach", tmp_path / "run", "--recording", export, "--recording", tmp_path / "d")
    text = invoke("analyze", tmp_path / "run").stdout
    assert text.index("Hang: ") < text.index("Exposed")

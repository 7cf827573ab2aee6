import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hvdprof.api import load_run
from hvdprof.cli.main import build_app
from hvdprof.ingest.rundir.attach_sources import Given
from hvdprof.ingest.rundir.attached_run import Stated, attach
from hvdprof.report.chrome.trace_selection import export_hint
from tests.builders.nsys_exports import write_export
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run
from tests.ingest.rundir.test_attached_recordings import MEGATRON, hung

MINE = Stated(name="mine", size=2)
KERNELS = [(0, 5_000_000, 0, "gemm"), (1_000_000, 4_000_000, 0, "ncclDevKernel_AllReduce_f32")]
COMMAND = "Export the attached files: "


def hint_of(folder, **given):
    attach(folder, Given(**given), MINE)
    return export_hint(load_run(folder))


def test_job_output_alone_is_named_with_what_to_attach(tmp_path):
    output = tmp_path / "job.out"
    output.write_text("Total img/sec on 2 CPU(s): 1960.0 +-1.0\n")
    hint = hint_of(tmp_path / "run", outputs=[output])

    named = hint.removeprefix("Only ").partition(" is attached, ")[0]
    assert Path(named).read_text() == output.read_text()
    assert "Attach a timeline, traces of torch.profiler" in hint


def test_a_log_that_cannot_be_exported_is_not_proposed(tmp_path):
    log = tmp_path / "megatron.log"
    log.write_text(MEGATRON)
    hint = hint_of(tmp_path / "run", recordings=[log])

    assert "recordings/megatron.log is attached, without a place in time." in hint
    assert "hvdprof export" not in hint


@pytest.mark.heavy
@pytest.mark.parametrize(
    "make", [hung, lambda folder: write_export(folder / "my report.sqlite", KERNELS)]
)
def test_the_command_exports_the_recordings_beside_a_log(tmp_path, make):
    (tmp_path / "given").mkdir()
    log = tmp_path / "given" / "megatron.log"
    log.write_text(MEGATRON)
    made = make(tmp_path / "given")
    hint = hint_of(tmp_path / "run", recordings=[log, made])

    arguments = shlex.split(hint.removeprefix(COMMAND))
    assert arguments[:2] == ["hvdprof", "export"]
    arguments[-1] = str(tmp_path / "trace.json")
    assert CliRunner().invoke(build_app(), arguments[1:], catch_exceptions=False).exit_code == 0


@pytest.mark.parametrize("name", ["stderr.txt", "stdout.txt"])
def test_of_a_measured_run_the_output_that_has_text_is_named(tmp_path, name):
    segment = SegmentSpec(parts_ms=typical_parts(10.0, 1.0))
    folder = write_run(tmp_path / "run", [PassSpec(size=1, repeat=1, segments=[segment])])
    run = load_run(folder)
    (record,) = run.manifest.passes
    place = folder / "passes" / record.id
    for one in ("stderr.txt", "stdout.txt"):
        (place / one).write_text("no data: boom\n" if one == name else "")

    assert export_hint(run) == f"The reason is in {place / name}."

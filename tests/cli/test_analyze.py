import json
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from hvdprof.cli.main import build_app
from hvdprof.errors import RegressedError, StorageError, UnreadableInputError, UsageError
from tests.builders.nccl_log import job
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run


@pytest.fixture
def run_folder(tmp_path):
    passes = [
        PassSpec(
            size=size,
            repeat=repeat,
            segments=[
                SegmentSpec(engine=engine, parts_ms=typical_parts(step_ms * factor, blocked_ms))
            ],
        )
        for repeat, factor in enumerate((0.99, 1.0, 1.01), start=1)
        for size, engine, step_ms, blocked_ms in (
            (1, "torch", 10.0, 0.0),
            (2, "horovod", 12.5, 2.0),
        )
    ]
    return write_run(tmp_path / "quick", passes)


def invoke(*arguments):
    result = CliRunner().invoke(build_app(), [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.heavy
def test_it_prints_the_verdict_first(run_folder):
    text = invoke("analyze", run_folder).stdout
    assert text.startswith("mnist on 2 ranks: 8")
    assert "efficiency against torch np=1" in text


@pytest.mark.slow
def test_json_on_standard_output_is_nothing_but_json(run_folder):
    result = json.loads(invoke("analyze", run_folder, "--format", "json").stdout)
    assert result["verdict"]["np"] == 2
    assert result["verdict"]["efficiency"] == pytest.approx(0.8, abs=0.01)


def test_the_schema_of_the_json_needs_no_run(run_folder, tmp_path):
    output = tmp_path / "schema.json"
    invoke("analyze", "--format", "json-schema", "-o", output)
    assert json.loads(output.read_text(encoding="utf-8"))["$schema"].endswith("2020-12/schema")
    with pytest.raises(UsageError, match="describes every analysis"):
        invoke("analyze", run_folder, "--format", "json-schema")


@pytest.mark.slow
def test_the_file_name_chooses_the_format(run_folder, tmp_path):
    output = tmp_path / "scaling.csv"
    assert invoke("analyze", run_folder, "-o", output).stderr == f"Wrote {output}\n"
    assert output.read_text(encoding="utf-8").startswith("model,np,engine,")


@pytest.mark.slow
def test_the_format_wins_over_the_file_name(run_folder, tmp_path):
    output = tmp_path / "result.out"
    invoke("analyze", run_folder, "-o", output, "--format", "json")
    assert json.loads(output.read_text(encoding="utf-8"))["schema_version"] == 2


@pytest.mark.slow
def test_a_file_is_replaced_only_by_force(run_folder, tmp_path):
    output = tmp_path / "result.json"
    output.write_text("mine", encoding="utf-8")
    with pytest.raises(StorageError, match="not overwritten"):
        invoke("analyze", run_folder, "-o", output)
    assert output.read_text(encoding="utf-8") == "mine"
    invoke("analyze", run_folder, "-o", output, "--force")
    assert json.loads(output.read_text(encoding="utf-8"))


def test_an_unknown_ending_is_refused_before_anything_is_read(tmp_path):
    with pytest.raises(UsageError, match=r"result\.pdf"):
        invoke("analyze", tmp_path / "no-run", "-o", tmp_path / "result.pdf")


def test_a_folder_that_is_no_run_is_reported(tmp_path):
    with pytest.raises(UnreadableInputError, match="is not a run directory"):
        invoke("analyze", tmp_path)


@pytest.mark.slow
def test_neither_torch_nor_horovod_nor_a_front_end_is_imported(run_folder):
    script = f"""
import sys
from xml.etree import ElementTree as ET

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "horovod", "dash", "plotly"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
from hvdprof.cli.main import main
sys.argv = ["hvdprof", "analyze", {str(run_folder)!r}]
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("mnist on 2 ranks")


@pytest.mark.slow
def test_a_problem_in_the_nccl_logs_of_all_passes_is_reported_once(run_folder):
    passes = sorted((run_folder / "passes").iterdir())
    text = "\n".join(job("SHM", extra=["NCCL_P2P_DISABLE set by environment to 1."])) + "\n"
    for folder in passes[:2]:
        (folder / "nccl").mkdir(exist_ok=True)
        (folder / "nccl" / "oak0.7000.log").write_text(text, encoding="utf-8")
    findings = json.loads(invoke("analyze", run_folder, "--format", "json").stdout)["findings"]
    assert [row["id"] for row in findings].count("nccl-p2p-disabled") == 1
    (row,) = [row for row in findings if row["id"] == "nccl-p2p-disabled"]
    assert row["file"].startswith(str(passes[0]))
    assert "NCCL_P2P_DISABLE" in row["quote"]
    shown = invoke("analyze", run_folder).stdout
    assert "NCCL_P2P_DISABLE" in shown.split("Findings")[1]


@pytest.mark.slow
def test_a_section_is_one_table_and_nothing_else(run_folder):
    assert invoke("analyze", run_folder, "--section", "launches").stdout.startswith("launches\n")


@pytest.mark.slow
def test_a_section_that_is_not_there_names_those_that_are(run_folder):
    with pytest.raises(UsageError) as raised:
        invoke("analyze", run_folder, "--section", "nothing")
    assert "launches" in raised.value.hint


def test_sections_are_printed_and_not_written(run_folder, tmp_path):
    with pytest.raises(UsageError) as raised:
        invoke("analyze", run_folder, "--section", "launches", "-o", tmp_path / "x.json")
    assert "hvdprof convert" in raised.value.hint
    assert not (tmp_path / "x.json").exists()


@pytest.mark.slow
def test_limits_go_to_the_formats_of_a_ci_job(run_folder, tmp_path):
    limits = ("--fail-on", "efficiency<5%", "--fail-on", "efficiency<99%")
    output = tmp_path / "gate.xml"
    with pytest.raises(RegressedError, match="1 of 2 limits failed"):
        invoke("analyze", run_folder, *limits, "-o", output)
    suite = ET.parse(output).getroot()[0]
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("2", "1")

    page = tmp_path / "gate.md"
    invoke("analyze", run_folder, *limits[:2], "-o", page)
    assert "| efficiency\\<5% | passed |" in page.read_text(encoding="utf-8")
    text = invoke("analyze", run_folder, *limits[:2], "--format", "github").stdout
    assert text.startswith("::notice title=hvdprof analyze::efficiency<5%25 passed: mnist")


@pytest.mark.parametrize("name", ["markdown", "junit", "github"])
def test_a_format_of_limits_without_limits_is_refused(run_folder, name):
    with pytest.raises(
        UsageError, match=f"--format {name} shows what became of --fail-on"
    ) as error:
        invoke("analyze", run_folder, "--format", name)
    assert "hvdprof report" in error.value.hint

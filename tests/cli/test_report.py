import json
import sys

import pytest
from typer.testing import CliRunner

from hvdprof.api import load_run
from hvdprof.cli.main import build_app
from hvdprof.errors import EnvironmentNotReadyError, MissingExtraError, StorageError, UsageError
from hvdprof.report.sections.file_page import nccl_test_sections
from tests.builders.flight_dumps import dump, write_dumps
from tests.builders.offline_wandb import offline_records
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run
from tests.ingest.logs.test_nccl_tests_output import NEW, row


@pytest.fixture
def run_folder(tmp_path):
    passes = [
        PassSpec(
            size=size,
            repeat=1,
            segments=[SegmentSpec(engine=engine, parts_ms=typical_parts(step_ms, blocked_ms))],
        )
        for size, engine, step_ms, blocked_ms in (
            (1, "torch", 10.0, 0.0),
            (2, "horovod", 12.5, 2.0),
        )
    ]
    return write_run(tmp_path / "quick", passes)


def invoke(*arguments):
    result = CliRunner().invoke(build_app(), ["report", *[str(one) for one in arguments]])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.slow
def test_without_a_file_markdown_goes_to_standard_output(run_folder):
    text = invoke(run_folder).stdout

    assert text.startswith("**mnist on 2 ranks: ")
    assert "| np | setting |" in text


@pytest.mark.slow
def test_the_name_of_the_file_chooses_the_format(run_folder, tmp_path):
    invoke(run_folder, "-o", tmp_path / "report.html")
    invoke(run_folder, "-o", tmp_path / "report.md")

    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (tmp_path / "report.md").read_text(encoding="utf-8").startswith("**mnist")


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["report.html", "report.md"])
def test_a_log_gets_a_report_of_its_own(tmp_path, name):
    log = tmp_path / "bench_<b>.txt"
    log.write_text("Total img/sec on 4 CPU(s): 1960.0 +-1.0\n", encoding="utf-8")

    invoke(log, "-o", tmp_path / name)

    text = (tmp_path / name).read_text(encoding="utf-8")
    assert "1,960" in text
    assert "throughputs of the whole job" in text
    assert "bench_<b>.txt" not in text


@pytest.mark.heavy
def test_a_folder_of_dumps_gets_a_report_of_its_own(tmp_path):
    write_dumps(tmp_path / "dumps", {0: dump(), 1: dump()})

    text = invoke(tmp_path / "dumps").stdout

    assert "PyTorch Flight Recorder dump" in text
    assert "Nothing was measured" not in text


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["report.html", "report.md"])
def test_the_bandwidths_of_nccl_tests_are_those_of_the_terminal(tmp_path, name):
    log = tmp_path / "all_reduce.txt"
    rows = [row(2**20 * size, algbw=1.0 + size) for size in range(1, 51)]
    log.write_text(NEW + "".join(rows))
    run = load_run(log)
    (table,) = nccl_test_sections(run.table("nccl_test_runs"), run.table("nccl_tests"))
    assert len(table.rows) == 40

    invoke(log, "-o", tmp_path / name)

    text = (tmp_path / name).read_text(encoding="utf-8")
    cells = (
        f"<td>{cell}</td>" if name.endswith("html") else f" {cell} |"
        for line in table.rows
        for cell in line
    )
    assert all(cell in text for cell in cells)
    assert "10 rows of small messages not shown" in text


def test_small_messages_have_a_bandwidth_of_three_digits(tmp_path):
    log = tmp_path / "all_reduce.txt"
    # Printed as 0.00, 0.04 and 24.00: twice the size divided by the time.
    log.write_text(NEW + row(8, algbw=0.0004) + row(1024, algbw=0.0184) + row(2**26, algbw=12.0))
    run = load_run(log)
    (table,) = nccl_test_sections(run.table("nccl_test_runs"), run.table("nccl_tests"))
    assert [line[2] for line in table.rows] == ["0.000800 GB/s", "0.0368 GB/s", "24.0 GB/s"]
    log.write_text(NEW + row(8, algbw=0.0004))
    run = load_run(log)
    (table,) = nccl_test_sections(run.table("nccl_test_runs"), run.table("nccl_tests"))
    assert table.rows[0][2] == "below 0.01 GB/s"


def test_a_log_has_no_figure(tmp_path):
    log = tmp_path / "bench.txt"
    log.write_text("Total img/sec on 4 CPU(s): 1960.0 +-1.0\n", encoding="utf-8")

    with pytest.raises(UsageError, match="Figures are made of runs"):
        invoke(log, "--figure", "scaling", "-o", tmp_path / "x.svg")


@pytest.mark.heavy
def test_nothing_is_replaced_without_force(run_folder, tmp_path):
    output = tmp_path / "report.html"
    output.write_text("mine", encoding="utf-8")

    with pytest.raises(StorageError):
        invoke(run_folder, "-o", output)

    assert output.read_text(encoding="utf-8") == "mine"


@pytest.mark.heavy
@pytest.mark.parametrize(
    "arguments",
    [
        ("--format", "html"),
        ("-o", "trace.csv"),
        ("--figure", "scaling"),
        ("--figure", "scaling", "-o", "scaling.html"),
        ("--figure", "nothing", "-o", "nothing.svg"),
    ],
)
def test_what_cannot_be_written_is_refused_with_what_can(
    run_folder, tmp_path, monkeypatch, arguments
):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UsageError) as raised:
        invoke(run_folder, *arguments)

    assert raised.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["quick"]


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["r.docx", "r.csv", "r"])
def test_every_other_ending_is_refused_with_one_text(tmp_path, name):
    with pytest.raises(UsageError, match=r"ends in none of \.html, \.md, \.pdf\.") as raised:
        invoke(tmp_path, "-o", name)
    assert raised.value.hint == "hvdprof analyze RUN -o FILE writes .json and .csv."


@pytest.mark.browser
def test_a_report_is_printed_as_a_pdf(run_folder, tmp_path):
    done = invoke(run_folder, "-o", tmp_path / "report.pdf")
    assert done.stderr == f"Wrote {tmp_path / 'report.pdf'}\n"
    content = (tmp_path / "report.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert len(content) > 50_000, "figures are in it"


def test_a_pdf_is_not_printed_of_markdown(run_folder, tmp_path):
    with pytest.raises(UsageError, match="printed from HTML"):
        invoke(run_folder, "-o", tmp_path / "report.pdf", "--format", "markdown")


@pytest.mark.browser
@pytest.mark.parametrize(
    ("suffix", "begins_with"), [(".png", b"\x89PNG"), (".svg", b"<svg"), (".pdf", b"%PDF")]
)
def test_a_figure_is_an_image(run_folder, tmp_path, suffix, begins_with):
    output = tmp_path / f"scaling{suffix}"

    invoke(run_folder, "--figure", "scaling", "-o", output)

    assert output.read_bytes().startswith(begins_with)


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_has_scalars_texts_and_the_report(run_folder):
    pytest.importorskip("tensorboard", reason="no TensorBoard (extra tensorboard)")
    assert (
        f"Sent to tensorboard: {run_folder / 'tensorboard'}"
        in invoke(run_folder, "--to", "tensorboard").stderr
    )
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(run_folder / "tensorboard"))
    read.Reload()
    (efficiency,) = read.Scalars("hvdprof/summary/efficiency")
    assert efficiency.value == pytest.approx(0.8, abs=0.05)
    assert read.Scalars("hvdprof/summary/mnist/np2/horovod/step_seconds")[0].value == pytest.approx(
        0.0125, rel=0.1
    )
    (verdict,) = read.Tensors("hvdprof/summary/verdict")
    assert verdict.tensor_proto.string_val[0].startswith(b"    mnist on 2 ranks: ")
    report = run_folder / "tensorboard" / "report.html"
    assert report.read_text(encoding="utf-8").startswith("<!doctype html>")
    report.write_text("mine")
    with pytest.raises(StorageError, match=r"report\.html"):
        invoke(run_folder, "--to", "tensorboard")
    assert report.read_text() == "mine"
    assert len(list(report.parent.glob("events.*"))) == 1
    invoke(run_folder, "--to", "tensorboard", "--force")
    assert report.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.filterwarnings("ignore")
def test_mlflow_has_metrics_tags_and_the_report(run_folder, tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason="no MLflow (extra mlflow)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    invoke(run_folder, "--to", "mlflow")
    from mlflow.tracking import MlflowClient

    client = MlflowClient()
    experiment = client.get_experiment_by_name("hvdprof")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("quick", "FINISHED")
    assert run.data.metrics["hvdprof/summary/efficiency"] == pytest.approx(0.8, abs=0.05)
    assert run.data.tags["hvdprof.summary.verdict"].startswith("mnist on 2 ranks: ")
    (artifact,) = client.list_artifacts(run.info.run_id)
    assert artifact.path == "report.html"


@pytest.mark.filterwarnings("ignore")
def test_wandb_has_the_summary_and_the_report(run_folder, monkeypatch):
    pytest.importorskip("wandb", reason="no Weights & Biases (extra wandb)")
    monkeypatch.setenv("WANDB_MODE", "offline")
    invoke(run_folder, "--to", "wandb")
    records = offline_records(run_folder)
    values = {
        item.key or "/".join(item.nested_key): json.loads(item.value_json)
        for record in records
        for item in record.summary.update
    }
    assert values["hvdprof/summary/efficiency"] == pytest.approx(0.8, abs=0.05)
    assert values["hvdprof/summary/verdict"].startswith("mnist on 2 ranks: ")
    files = [
        entry.path
        for record in records
        for entry in record.request.log_artifact.artifact.manifest.contents
        or record.artifact.manifest.contents
    ]
    assert files == ["report.html"]


def test_what_cannot_be_sent_is_refused(run_folder, tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="--to kubeflow is not known") as unknown:
        invoke(run_folder, "--to", "kubeflow")
    assert unknown.value.hint == "Known are: wandb, mlflow, tensorboard."
    with pytest.raises(UsageError, match="takes no --output"):
        invoke(run_folder, "--to", "wandb", "-o", tmp_path / "report.html")
    log = tmp_path / "bench.txt"
    log.write_text("Total img/sec on 4 CPU(s): 1960.0 +-1.0\n", encoding="utf-8")
    with pytest.raises(UsageError, match="--to sends runs"):
        invoke(log, "--to", "wandb")


@pytest.mark.filterwarnings("ignore")
def test_a_destination_that_fails_is_an_error(run_folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtraError, match="--to wandb needs packages"):
        invoke(run_folder, "--to", "wandb")
    monkeypatch.undo()
    pytest.importorskip("mlflow", reason="no MLflow (extra mlflow)")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "no-such-scheme://here")
    with pytest.raises(EnvironmentNotReadyError, match="--to mlflow cannot be used: "):
        invoke(run_folder, "--to", "mlflow")

import pytest
from typer.testing import CliRunner

from hvdprof.api import load_run
from hvdprof.cli.main import build_app
from hvdprof.errors import StorageError, UsageError
from hvdprof.report.sections.nccl_tests import nccl_test_sections
from tests.builders.flight_dumps import dump, write_dumps
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
    assert "| np | toggles |" in text


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

import json
import re
from io import StringIO
from pathlib import Path

import pytest

from hvdprof.api import analyze_files, load_run
from hvdprof.errors import InconclusiveError, RegressedError, UnreadableInputError, UsageError
from hvdprof.report.answers.files import files_answer
from tests.builders.places import CORPUS, needs_corpus
from tests.cli.test_convert import TEXT, invoke
from tests.ingest.logs.test_ras_text import MISMATCH
from tests.ingest.test_load_files import MIXED, TIMELINE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job.out").write_text(MIXED)
    (tmp_path / "timeline.json").write_text(TIMELINE)
    (tmp_path / "results.txt").write_text(TEXT)
    return tmp_path


@pytest.mark.slow
def test_every_file_has_its_page(folder: Path) -> None:
    text = invoke("analyze", folder).stdout
    assert "job.out" in text
    assert "timeline.json" in text
    assert re.search(r"^  backend +GLOO *$", text, re.MULTILINE)
    assert "against np=1, no repeats" in text
    assert "95.0 %" in text
    assert "hvdprof run --np 1,2,4 -- python train.py" in text
    # The total of the synthetic benchmark alone states an error.
    assert re.search(r"^ +2 +20\.0 ± 0\.5 +- ", text, re.MULTILINE)
    assert text.count("±") == 1


@pytest.mark.heavy
def test_as_json(folder: Path) -> None:
    found = json.loads(invoke("analyze", folder / "timeline.json", "--format", "json").stdout)
    (page,) = found["files"]
    assert page["kind"] == "Horovod timeline"
    assert page["facts"]["num_ranks"] == 2
    assert page["facts"]["negotiation_median_ns"] is None
    assert page["facts"]["executing_share"] == 0.4
    assert found["row_counts"]["events"] == 5
    assert all(open_["command"] for open_ in page["unanswered"])


@pytest.mark.heavy
def test_several_paths_and_a_file_to_write(folder: Path) -> None:
    output = folder / "found.json"
    invoke("analyze", folder / "job.out", folder / "results.txt", "-o", output)
    found = json.loads(output.read_text())
    assert len(found["files"]) == 2
    assert [row["np"] for row in found["tables"]["throughput_scaling"]] == [2, 1, 2, 4]


@pytest.mark.heavy
def test_a_throughput_table_has_the_verdict_of_scaling(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("np,samples/s\n1,100\n2,180\n4,330\n")
    found = json.loads(invoke("analyze", table, "--format", "json").stdout)
    stated = json.loads(invoke("scaling", table, "--format", "json").stdout)
    assert found["files"][0]["verdict"] == stated["verdicts"][0]
    assert found["files"][0]["caveat"] == stated["caveats"][0]


@pytest.mark.heavy
def test_a_table_of_several_series_has_their_verdicts_and_range(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("model,np,samples/s\na,1,100\na,2,180\nb,1,10\nb,2,19\n")
    found = json.loads(invoke("analyze", table, "--format", "json").stdout)
    stated = json.loads(invoke("scaling", table, "--format", "json").stdout)
    assert found["verdicts"] == stated["verdicts"]
    assert found["files"][0]["verdict"] == (
        "2 series: 90.0 % to 95.0 % scaling efficiency on the largest rank count of each."
    )


def test_a_binary_file_is_named_in_one_line(tmp_path: Path) -> None:
    program = tmp_path / "bin.dat"
    program.write_bytes(b"\x7fELF" + bytes(100))
    with pytest.raises(
        UnreadableInputError, match=r"is a program \(ELF\); it is not read"
    ) as caught:
        invoke("analyze", program)
    assert len(caught.value.hint) < 80


def test_there_is_no_csv_of_files(folder: Path) -> None:
    with pytest.raises(UsageError, match="CSV output is not supported for files") as caught:
        invoke("analyze", folder / "job.out", "--format", "csv")
    assert "hvdprof convert" in caught.value.hint


def test_nothing_usable_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("nothing\n")
    (tmp_path / "b.txt").write_text("known\n")
    with pytest.raises(UnreadableInputError, match="None of the 2 files"):
        invoke("analyze", tmp_path)


@pytest.mark.slow
@needs_corpus
def test_findings_stand_below_their_log() -> None:
    text = invoke("analyze", CORPUS / "horovod_logs" / "stackhpc_TCP-8GPU-4PF.log").stdout
    assert "NCCL log, synthetic_benchmark output" in text
    assert "NET/Socket" in " ".join(text.split("Findings")[1].split())


@pytest.mark.slow
@needs_corpus
@pytest.mark.parametrize("kind", ["nccl_tests", "nccl_logs", "horovod_logs", "specimens"])
def test_every_file_of_the_corpus_can_be_reported(kind: str) -> None:
    found = json.loads(invoke("analyze", CORPUS / kind, "--format", "json").stdout)
    assert len(found["files"]) == len(list((CORPUS / kind).iterdir()))


@pytest.mark.heavy
def test_the_verdict_of_a_file_comes_before_its_name(tmp_path: Path) -> None:
    (tmp_path / "ras.txt").write_text(MISMATCH)
    found, stream = analyze_files(load_run(tmp_path)), StringIO()
    files_answer(found).write("terminal", stream, width=200)
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith(
        "Rank 7 of communicator 27a079b828ff1a75 (GPU 7, pid 9 on 10.0.0.1) is behind"
    )
    place = next(place for place, line in enumerate(lines) if "ras.txt" in line)
    assert lines[place - 1] == ""
    assert "Caveat: " in lines[place - 2]
    assert "communicators" in lines[place + 1]


def test_throughputs_in_files_decide_a_limit_of_efficiency(tmp_path: Path) -> None:
    table = tmp_path / "scaling.csv"
    rows = [(1, 100), (1, 101), (1, 100), (4, 200), (4, 202), (4, 201)]
    table.write_text("np,samples/s\n" + "".join(f"{np},{rate}\n" for np, rate in rows))
    with pytest.raises(RegressedError, match="1 of 1 limits failed"):
        invoke("analyze", table, "--fail-on", "efficiency<80%")
    passed = invoke("analyze", table, "--fail-on", "efficiency<30%")
    assert passed.exit_code == 0
    assert "efficiency<30% passed: 4 ranks: 50." in passed.stderr
    single = tmp_path / "single.csv"
    single.write_text("np,samples/s\n1,100\n4,200\n")
    with pytest.raises(InconclusiveError):
        invoke("analyze", single, "--fail-on", "efficiency<80%")


@pytest.mark.parametrize(
    ("content", "limit", "said"),
    [
        ("np,samples/s\n1,100\n4,200\n", "straggler>10%", "no steps of every rank"),
        ("Process 1 exit with status code 137.\n", "efficiency<80%", "several rank counts"),
    ],
)
def test_a_limit_that_files_do_not_show_is_refused_without_a_detour(
    tmp_path: Path, content: str, limit: str, said: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(content)
    with pytest.raises(UsageError, match=said) as error:
        invoke("analyze", path, "--fail-on", limit)
    assert "attach" not in error.value.hint


def test_jobs_are_for_files(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(UsageError, match="--jobs is for files"):
        invoke("analyze", tmp_path, "--jobs", "2")

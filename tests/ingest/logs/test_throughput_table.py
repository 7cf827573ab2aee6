# ruff: noqa: E501  (lines of logs are as long as they are)
from pathlib import Path

import pytest

from hvdprof.ingest.logs.printed_file import read_printed_file
from hvdprof.ingest.logs.throughput_table import ThroughputTable
from hvdprof.model.notes import texts
from tests.builders.places import CORPUS, needs_corpus
from tests.builders.printed import read_part


@pytest.mark.parametrize(
    "text",
    [
        "np,samples/s\n1,100\n2,190.5\n",
        "GPUs;images/sec\n1;100\n2;190.5\n",
        "Num GPUs\tthroughput\n1\t100\n2\t190.5\n",
        "| workers | samples_per_s |\n|---|--:|\n| 1 | 100 |\n| **2** | 190.5 |\n",
        "1,100\n2,190.5\n",
        "# measured by hand\n1 100\n2 190.5\n",
    ],
)
def test_every_writing(tmp_path: Path, text: str) -> None:
    tables, reader = read_part(ThroughputTable, text, tmp_path)
    frame = tables["throughput"]
    assert list(frame["np"]) == [1, 2]
    assert list(frame["samples_per_s"]) == [100.0, 190.5]
    assert reader.kinds() == ["throughput table"]


@pytest.mark.parametrize(
    "text",
    [
        "np,loss\n1,100\n2,190\n",
        "size,busbw\n1,100\n",
        "|个数|速率/Mbps|\n|---|---|\n|1|15|\n",
        "1,100\nand text\n2,190\n",
        "np,samples/s\nnan,100\n-1,5\n1.5,7\n",
        "3 4\n",
    ],
)
def test_what_is_no_such_table(tmp_path: Path, text: str) -> None:
    tables, _ = read_part(ThroughputTable, text, tmp_path)
    assert len(tables["throughput"]) == 0


def test_labels_and_headings_make_the_series(tmp_path: Path) -> None:
    text = '# A\n## B\nmodel,np,samples/s,speedup\nr50,1,100,1\nr50,2,"1,190",1.9x\n## C\nnp,samples/s\n4,7\n'
    tables, _ = read_part(ThroughputTable, text.replace('"1,190"', "190"), tmp_path)
    frame = tables["throughput"]
    assert list(frame["series"]) == ["A, B, r50", "A, B, r50", "A, C"]
    assert list(frame["stated_speedup"][:2]) == [1.0, 1.9]


def series_of(text: str, folder: Path) -> dict[str, list[int]]:
    tables, _ = read_part(ThroughputTable, text, folder)
    frame = tables["throughput"]
    return {
        str(name): list(rows["np"])
        for name, rows in frame.groupby("series", observed=True, sort=False)
    }


@pytest.mark.parametrize("bad", ["4,ERROR", "4,", "ERROR,ERROR", "OOM,nan"])
def test_a_bad_row_is_skipped_with_a_note_and_does_not_end_the_table(
    tmp_path: Path, bad: str
) -> None:
    text = f"np,samples/s\n1,100\n{bad}\n8,700\n16,1300\n"
    tables, reader = read_part(ThroughputTable, text, tmp_path)
    assert list(tables["throughput"]["np"]) == [1, 8, 16]
    assert list(texts(reader.notes())) == [
        "1 row of the throughput table skipped, first line 3: no number"
    ]


def test_prose_behind_a_table_is_no_bad_row(tmp_path: Path) -> None:
    text = "np,samples/s\n1,100\n2,190\nThese numbers are means of five runs, each of them long.\n"
    _, reader = read_part(
        ThroughputTable, text + "Bye, all of you in the next room today\n", tmp_path
    )
    assert reader.notes() == []


def test_each_table_is_a_series_of_its_own(tmp_path: Path) -> None:
    one = "np,samples/s\n1,100\n2,190\n"
    assert series_of(f"{one}\n{one}", tmp_path) == {"": [1, 2], "(table 2)": [1, 2]}
    assert series_of(f"# A\n{one}\n{one}# B\n{one}", tmp_path) == {
        "A": [1, 2],
        "A (table 2)": [1, 2],
        "B": [1, 2],
    }


def test_files_put_together_are_one_table(tmp_path: Path) -> None:
    assert series_of("np,samples/s\n1,100\nnp,samples/s\n2,190\n", tmp_path) == {"": [1, 2]}


@pytest.mark.parametrize("column", ["framework", "gpu type", "What was run"])
def test_a_column_of_words_that_distinguishes_rows_is_a_label(tmp_path: Path, column: str) -> None:
    text = f"{column},np,samples/s\na,1,10\na,2,19\nb,1,7\nb,2,13\n"
    assert series_of(text, tmp_path) == {"a": [1, 2], "b": [1, 2]}


def test_a_column_of_dates_is_no_label(tmp_path: Path) -> None:
    text = "date,np,samples/s\n3 May,1,10\n4 May,2,19\n5 May,4,30\n6 May,4,31\n"
    assert series_of(text, tmp_path) == {"": [1, 2, 4, 4]}


def test_a_table_of_speed_ups_alone_is_read(tmp_path: Path) -> None:
    text = "| GPUs | Speed-up |\n|---|---|\n| 1 | 1.00x |\n| 8 | 7.5\N{MULTIPLICATION SIGN} |\n"
    tables, _ = read_part(ThroughputTable, text, tmp_path)
    frame = tables["throughput"]
    assert list(frame["np"]) == [1, 8]
    assert list(frame["stated_speedup"]) == [1.0, 7.5]
    assert frame["samples_per_s"].isna().all()


@needs_corpus
def test_the_published_tables(tmp_path: Path) -> None:
    name = "dlperf_tf1_horovod_resnet50_tables.md"
    content = (CORPUS / "benchmarks" / name).read_bytes()
    tables, _ = read_part(ThroughputTable, content, tmp_path)
    first = tables["throughput"].iloc[:5]
    assert list(first["np"]) == [1, 4, 8, 16, 32]
    assert list(first["samples_per_s"]) == [362.44, 1391.28, 2721.98, 5099.42, 9514.64]
    assert first["series"].nunique() == 1


@pytest.mark.parametrize("number", ["1e999", "-1e999", "9" * 400, "1e300", "1e-300"])
def test_a_number_beyond_64_bits_is_none(tmp_path: Path, number: str) -> None:
    tables, _ = read_part(ThroughputTable, f"np,samples/s\n1,100\n2,{number}\n4,350\n", tmp_path)
    assert list(tables["throughput"]["np"]) == [1, 4]


@pytest.mark.parametrize(
    ("text", "of_all"),
    [
        ("| GPUs | Mean step | Samples/s/GPU |\n|---:|---:|---:|\n| 2 | 1.000s | 40.0 |\n| 8 | 0.260s | 38.5 |\n", [80, 308]),
        ("gpus,samples_per_s_per_gpu\n2,40.0\n8,38.5\n", [80, 308]),
        ("| GPUs | img/s per GPU |\n|---|---|\n| 1 | 400 |\n| 8 | 390 |\n", [400, 3120]),
        ("| GPUs | images/sec/gpu |\n|---|---|\n| 1 | 400 |\n| 8 | 390 |\n", [400, 3120]),
        ("| GPUs | tokens/s/device |\n|---|---|\n| 1 | 4000 |\n| 8 | 3900 |\n", [4000, 31200]),
        ("| num_gpus | throughput per GPU (samples/s) |\n|---|---|\n| 1 | 400 |\n| 8 | 390 |\n", [400, 3120]),
        ("np,samples/s/worker\n1,400\n8,390\n", [400, 3120]),
        ("np,throughput (tokens/s/chip)\n1,400\n8,390\n", [400, 3120]),
        ("np,throughput (samples/s)\n1,400\n8,390\n", [400, 390]),
    ],
)  # fmt: skip
def test_rates_per_rank_are_multiplied_by_the_ranks(
    tmp_path: Path, text: str, of_all: list[float]
) -> None:
    tables, _ = read_part(ThroughputTable, text, tmp_path)
    assert list(tables["throughput"]["samples_per_s"]) == pytest.approx(of_all)


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("np,samples/s\n1,400.0\n8,3100.0", [1, 8]),
        ("np,samples/s\n1,400.0\n8,31", [1]),
        ("np,samples/s\n1,400.0\n8,31\n", [1, 8]),
        ("1 400\n2 790\n8 31", [1, 2]),
    ],
)
def test_a_last_number_that_lacks_digits_is_left_out(
    tmp_path: Path, text: str, ranks: list[int]
) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(text)
    file = read_printed_file(path)
    assert dict(file.tables)["throughput"]["np"].tolist() == ranks
    omitted = "1 row of the throughput table omitted: the file ends within it"
    assert (omitted in [note.text for note in file.notes]) == (ranks == [1])

# ruff: noqa: E501  (lines of logs are as long as they are)
from pathlib import Path

import pytest

from hvdprof.ingest.logs.throughput_table import ThroughputTable
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


@needs_corpus
def test_the_published_tables(tmp_path: Path) -> None:
    name = "dlperf_tf1_horovod_resnet50_tables.md"
    content = (CORPUS / "benchmarks" / name).read_bytes()
    tables, _ = read_part(ThroughputTable, content, tmp_path)
    first = tables["throughput"].iloc[:5]
    assert list(first["np"]) == [1, 4, 8, 16, 32]
    assert list(first["samples_per_s"]) == [362.44, 1391.28, 2721.98, 5099.42, 9514.64]
    assert first["series"].nunique() == 1

from pathlib import Path

import pytest

from hvdprof.analyze.files.log_facts import rate_facts
from hvdprof.ingest.logs.benchmark_output import BenchmarkOutput
from hvdprof.model.notes import texts
from tests.builders.places import CORPUS, needs_corpus
from tests.builders.printed import read_part

TF_CNN = """Model:       resnet50
Batch size:  64 global
             32 per device
Devices:     ['horovod/gpu:0', 'horovod/gpu:1']
Step\tImg/sec\ttotal_loss
1\timages/sec: 100.5 +/- 0.0 (jitter = 0.0)\t8.1
10\timages/sec: 101.5 +/- 0.4 (jitter = 0.2)\t8.0
total images/sec: 202.00
"""
SYNTHETIC = """Model: resnet50
Batch size: 32
Number of GPUs: 4
Iter #0: 147.6 img/sec per GPU
Img/sec per GPU: 146.9 +-1.4
Total img/sec on 4 GPU(s): 587.6 +-5.6
"""


def test_tf_cnn_benchmarks(tmp_path: Path) -> None:
    tables, reader = read_part(BenchmarkOutput, TF_CNN, tmp_path)
    rates = tables["printed_rates"]
    assert list(rates["scope"]) == ["step", "step", "job"]
    assert list(rates["samples_per_s"]) == [100.5, 101.5, 202.0]
    assert list(rates["iteration"].dropna()) == [1, 10]
    (row,) = tables["throughput"].to_dict("records")
    assert (row["np"], row["samples_per_s"]) == (2, 202.0)
    assert row["series"] == "tf_cnn_benchmarks resnet50, batch 32"
    assert reader.kinds() == ["tf_cnn_benchmarks output"]


def test_totals_of_ranks_are_never_summed(tmp_path: Path) -> None:
    tagged = "".join(
        f"[1,{rank}]<stdout>:{line}\n" for line in TF_CNN.splitlines() for rank in (0, 1)
    )
    tables, _ = read_part(BenchmarkOutput, tagged.replace("202.00", "202.00", 1), tmp_path)
    assert list(tables["throughput"]["samples_per_s"]) == [202.0]
    assert sorted(tables["printed_rates"].query("scope == 'job'")["rank"]) == [0, 1]


def test_the_synthetic_benchmark(tmp_path: Path) -> None:
    tables, _ = read_part(BenchmarkOutput, SYNTHETIC + SYNTHETIC.replace("587", "590"), tmp_path)
    assert list(tables["printed_rates"]["scope"]) == ["step", "rank", "job"] * 2
    assert list(tables["throughput"]["samples_per_s"]) == [587.6, 590.6]
    assert list(tables["throughput"]["np"]) == [4, 4]


def test_runs_in_one_file_are_never_averaged(tmp_path: Path) -> None:
    second = TF_CNN.replace("202.00", "380.00").replace("'horovod/gpu:1'", "'horovod/gpu:1'" * 3)
    crashed = TF_CNN.replace("total images/sec: 202.00\n", "").replace("32 per", "16 per")
    tables, _ = read_part(BenchmarkOutput, crashed + TF_CNN + second, tmp_path)
    assert list(tables["throughput"]["samples_per_s"]) == [202.0, 380.0]
    assert list(tables["throughput"]["np"]) == [2, 4]
    assert tables["throughput"]["series"].nunique() == 1
    assert list(tables["printed_rates"]["job"]) == [0, 0, 1, 1, 1, 2, 2, 2]
    facts = {fact.name: fact.value for fact in rate_facts(tables["printed_rates"])}
    assert facts["each_job"] == (
        "1: tf_cnn_benchmarks, 2 ranks: 202 samples/s, line 15\n"
        "2: tf_cnn_benchmarks, 4 ranks: 380 samples/s, line 23"
    )
    assert "total_samples_per_s" not in facts


def test_ranks_whose_output_comes_one_after_the_other_are_one_run(tmp_path: Path) -> None:
    ranks = [TF_CNN, TF_CNN.replace("202.00", "204.00")]
    text = "".join(
        f"[1,{rank}]<stdout>:{line}\n" for rank in (0, 1) for line in ranks[rank].splitlines()
    )
    tables, _ = read_part(BenchmarkOutput, text, tmp_path)
    assert list(tables["throughput"]["samples_per_s"]) == [203.0]


def test_a_run_without_its_header_is_another_run(tmp_path: Path) -> None:
    tail = SYNTHETIC.split("4\n", 1)[1].replace("587.6", "300.0")
    tables, _ = read_part(BenchmarkOutput, SYNTHETIC + tail, tmp_path)
    assert list(tables["throughput"]["samples_per_s"]) == [587.6, 300.0]
    series = [str(name) for name in tables["throughput"]["series"]]
    assert series[0] == "synthetic_benchmark resnet50, batch 32"
    assert series[1] == "synthetic_benchmark unnamed model"


def test_throughput_lines_of_other_sizes_are_other_runs(tmp_path: Path) -> None:
    line = "Throughput: {} images/s on average, Num of GPUs: {}\n"
    text = line.format(100.0, 4) + line.format(110.0, 4) + line.format(190.0, 8)
    tables, _ = read_part(BenchmarkOutput, text, tmp_path)
    assert list(tables["throughput"]["samples_per_s"]) == [105.0, 190.0]
    assert list(tables["printed_rates"]["job"]) == [0, 0, 1]


def test_a_model_behind_a_mark_of_a_page_is_read(tmp_path: Path) -> None:
    tables, _ = read_part(BenchmarkOutput, f"`{SYNTHETIC}", tmp_path)
    assert list(tables["throughput"]["series"]) == ["synthetic_benchmark resnet50, batch 32"]


def test_a_total_of_unknown_ranks_gives_a_warning(tmp_path: Path) -> None:
    tables, reader = read_part(BenchmarkOutput, "total images/sec: 5.0\n", tmp_path)
    assert len(tables["throughput"]) == 0
    assert list(texts(reader.notes())) == ["1 total without a number of ranks"]


@pytest.mark.heavy
@needs_corpus
@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("IB-8GPU-2VF", 1174.9),
        ("IB-8GPU-4VF", 1149.4),
        ("IB-8GPU-8VF", 1076.1),
        ("RoCE-8GPU-2VF", 1114.4),
        ("RoCE-8GPU-8VF", 906.0),
        ("TCP-8GPU-2PF", 433.1),
        ("TCP-8GPU-4PF", 220.6),
    ],
)
def test_the_synthetic_benchmarks_of_the_corpus(tmp_path: Path, name: str, total: float) -> None:
    content = (CORPUS / "horovod_logs" / f"stackhpc_{name}.log").read_bytes()
    tables, _ = read_part(BenchmarkOutput, content, tmp_path)
    (row,) = tables["throughput"].to_dict("records")
    assert (row["np"], row["samples_per_s"]) == (8, total)
    assert len(tables["printed_rates"]) == 12


@needs_corpus
def test_throughput_lines_of_a_job(tmp_path: Path) -> None:
    name = "alcf_polaris_resnet50_20250627_without_aws_socket.log"
    content = (CORPUS / "nccl_logs" / name).read_bytes()
    tables, _ = read_part(BenchmarkOutput, content, tmp_path)
    assert len(tables["printed_rates"]) == 10
    (row,) = tables["throughput"].to_dict("records")
    assert row["np"] == 8
    assert row["samples_per_s"] == pytest.approx(1996, abs=5)


def test_a_rate_that_is_cut_is_none(tmp_path):
    tables, _ = read_part(BenchmarkOutput, TF_CNN + "100\timages/sec: 152\n", tmp_path)
    assert 152 not in tables["printed_rates"]["samples_per_s"].tolist()

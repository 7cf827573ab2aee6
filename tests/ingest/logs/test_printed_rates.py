from pathlib import Path

import pandas as pd
import pytest

from hvdprof.analyze.files.rate_report import rate_facts
from hvdprof.ingest.logs.printed_file import read_printed_file
from hvdprof.ingest.logs.printed_rates import PrintedRates
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
    tables, reader = read_part(PrintedRates, TF_CNN, tmp_path)
    rates = tables["printed_rates"]
    assert list(rates["scope"]) == ["step", "step", "job"]
    assert list(rates["rate"]) == [100.5, 101.5, 202.0]
    assert list(rates["iteration"].dropna()) == [1, 10]
    (row,) = tables["throughput"].to_dict("records")
    assert (row["np"], row["samples_per_s"]) == (2, 202.0)
    assert row["series"] == "tf_cnn_benchmarks resnet50, batch 32"
    assert reader.kinds() == ["tf_cnn_benchmarks output"]


def test_totals_of_ranks_are_never_summed(tmp_path: Path) -> None:
    tagged = "".join(
        f"[1,{rank}]<stdout>:{line}\n" for line in TF_CNN.splitlines() for rank in (0, 1)
    )
    tables, _ = read_part(PrintedRates, tagged.replace("202.00", "202.00", 1), tmp_path)
    assert list(tables["throughput"]["samples_per_s"]) == [202.0]
    assert sorted(tables["printed_rates"].query("scope == 'job'")["rank"]) == [0, 1]


def test_the_synthetic_benchmark(tmp_path: Path) -> None:
    tables, _ = read_part(PrintedRates, SYNTHETIC + SYNTHETIC.replace("587", "590"), tmp_path)
    assert list(tables["printed_rates"]["scope"]) == ["step", "rank", "job"] * 2
    assert list(tables["throughput"]["samples_per_s"]) == [587.6, 590.6]
    assert list(tables["throughput"]["np"]) == [4, 4]


def test_runs_in_one_file_are_never_averaged(tmp_path: Path) -> None:
    second = TF_CNN.replace("202.00", "380.00").replace("'horovod/gpu:1'", "'horovod/gpu:1'" * 3)
    crashed = TF_CNN.replace("total images/sec: 202.00\n", "").replace("32 per", "16 per")
    tables, _ = read_part(PrintedRates, crashed + TF_CNN + second, tmp_path)
    assert list(tables["throughput"]["samples_per_s"]) == [202.0, 380.0]
    assert list(tables["throughput"]["np"]) == [2, 4]
    assert len(set(tables["throughput"]["series"])) == 1
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
    tables, _ = read_part(PrintedRates, text, tmp_path)
    assert list(tables["throughput"]["samples_per_s"]) == [203.0]


def test_a_run_without_its_header_is_another_run(tmp_path: Path) -> None:
    tail = SYNTHETIC.split("4\n", 1)[1].replace("587.6", "300.0")
    tables, _ = read_part(PrintedRates, SYNTHETIC + tail, tmp_path)
    assert list(tables["throughput"]["samples_per_s"]) == [587.6, 300.0]
    series = [str(name) for name in tables["throughput"]["series"]]
    assert series[0] == "synthetic_benchmark resnet50, batch 32"
    assert series[1] == "synthetic_benchmark unnamed model"


def test_throughput_lines_of_other_sizes_are_other_runs(tmp_path: Path) -> None:
    line = "Throughput: {} images/s on average, Num of GPUs: {}\n"
    text = line.format(100.0, 4) + line.format(110.0, 4) + line.format(190.0, 8)
    tables, _ = read_part(PrintedRates, text, tmp_path)
    assert list(tables["throughput"]["samples_per_s"]) == [105.0, 190.0]
    assert list(tables["printed_rates"]["job"]) == [0, 0, 1]


def test_a_model_behind_a_mark_of_a_page_is_read(tmp_path: Path) -> None:
    tables, _ = read_part(PrintedRates, f"`{SYNTHETIC}", tmp_path)
    assert list(tables["throughput"]["series"]) == ["synthetic_benchmark resnet50, batch 32"]


def test_a_total_of_unknown_ranks_gives_a_warning(tmp_path: Path) -> None:
    tables, reader = read_part(PrintedRates, "total images/sec: 5.0\n", tmp_path)
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
    tables, _ = read_part(PrintedRates, content, tmp_path)
    (row,) = tables["throughput"].to_dict("records")
    assert (row["np"], row["samples_per_s"]) == (8, total)
    assert len(tables["printed_rates"]) == 12


@needs_corpus
def test_throughput_lines_of_a_job(tmp_path: Path) -> None:
    name = "alcf_polaris_resnet50_20250627_without_aws_socket.log"
    content = (CORPUS / "nccl_logs" / name).read_bytes()
    tables, _ = read_part(PrintedRates, content, tmp_path)
    assert len(tables["printed_rates"]) == 10
    (row,) = tables["throughput"].to_dict("records")
    assert row["np"] == 8
    assert row["samples_per_s"] == pytest.approx(1996, abs=5)


def test_a_rate_that_is_cut_is_none(tmp_path):
    tables, _ = read_part(PrintedRates, TF_CNN + "100\timages/sec: 152\n", tmp_path)
    assert 152 not in tables["printed_rates"]["rate"].tolist()


def read(folder: Path, name: str, text: str) -> tuple[dict[str, pd.DataFrame], list[str]]:
    (folder / name).write_text(text)
    file = read_printed_file(folder / name)
    return dict(file.tables), [note.text for note in file.notes]


def test_a_run_that_ends_before_its_total_counts_by_its_steps(tmp_path: Path) -> None:
    steps = "".join(f"Iter #{n}: {50 + n}.0 img/sec per GPU\n" for n in range(3))
    cut = f"Model: resnet50\nBatch size: 32\nNumber of GPUs: 2\n{steps}"
    tables, notes = read(tmp_path, "job.log", SYNTHETIC + cut)
    assert list(tables["throughput"]["np"]) == [4, 2]
    assert list(tables["throughput"]["samples_per_s"]) == [587.6, 103.0]
    assert len(set(tables["throughput"]["series"])) == 1
    assert notes == [
        "the total of a run with 2 ranks is not in the file: the rates of its steps count"
    ]


@pytest.mark.parametrize(
    ("name", "np"),
    [
        ("train_np4.log", 4),
        ("8gpus.txt", 8),
        ("run-16-gpu.log", 16),
        ("np=2.log", 2),
        ("gpu3.log", None),
        ("rank3.log", None),
        ("np4_8gpus.log", None),
        ("job.4711.log", None),
    ],
)
def test_the_number_of_ranks_in_the_name_of_a_file(
    tmp_path: Path, name: str, np: int | None
) -> None:
    line = "step: {}  loss:  4.0  grad_norm:  1.2  memory:  1.0GiB(1.0%)  tps: 7,000  mfu: 4%\n"
    tables, _ = read(tmp_path, name, line.format(1) + line.format(2))
    found = tables.get("throughput", pd.DataFrame({"np": [], "samples_per_s": []}))
    assert list(found["np"]) == ([] if np is None else [np])
    assert list(found["samples_per_s"]) == ([] if np is None else [7000.0 * np])


def test_what_a_file_states_counts_before_its_name(tmp_path: Path) -> None:
    tables, _ = read(tmp_path, "np8.log", SYNTHETIC)
    assert list(tables["throughput"]["np"]) == [4]


@pytest.mark.parametrize(
    "text",
    [
        "Num examples = 10\n  Instantaneous batch size per device = 8\n  Total train batch size "
        "(w. parallel, distributed & accumulation) = 64\n  Gradient Accumulation steps = 2\n"
        "{'train_runtime': 9.5, 'train_samples_per_second': 208.9, 'train_steps_per_second': 3}\n",
        "\t Train throughput/samples_per_sec: 208.9000\n"
        "\t Train throughput/device/samples_per_sec: 52.2250\n" * 2,
    ],
)
def test_the_number_of_ranks_by_other_numbers(tmp_path: Path, text: str) -> None:
    tables, _ = read(tmp_path, "job.log", text)
    assert list(tables["throughput"]["np"]) == [4]
    assert list(tables["throughput"]["samples_per_s"]) == [208.9]


def test_steps_per_second_are_no_throughput_of_a_job(tmp_path: Path) -> None:
    tables, _ = read(tmp_path, "np4.log", "global_step/sec: 5.1\n" * 3)
    assert "throughput" not in tables


def test_a_number_in_which_the_file_ends_is_left_out(tmp_path: Path) -> None:
    tables, notes = read(tmp_path, "job.log", "global_step/sec: 5.13\nglobal_step/sec: 5.1")
    assert list(tables["printed_rates"]["rate"]) == [5.13]
    assert notes == ["1 rate omitted: the file ends within its line"]


def test_a_bar_of_what_is_loaded_is_no_rate(tmp_path: Path) -> None:
    loaded = "Loading checkpoint shards: 100%|██████████| 3/3 [00:05<00:00,  1.60it/s]\n"
    drawn = "100%|██████████| 3/3 [00:05<00:00,  1.60it/s]\n"
    assert read(tmp_path, "job.log", loaded * 5 + drawn * 5) == ({}, [])


def test_totals_of_several_numbers_of_ranks_are_several_runs(tmp_path: Path) -> None:
    text = "".join(f"`mpirun -np {np} x`: `total images/sec: {np * 90}.00`\n" for np in (1, 8))
    tables, _ = read(tmp_path, "notes.md", text)
    assert tables["printed_rates"]["job"].tolist() == [0, 1]
    assert tables["throughput"]["np"].tolist() == [1, 8]


@pytest.mark.parametrize(("num_iterations", "error"), [(0, 2.0), (1, 2.0), (5, 1.0)])
def test_the_spread_of_iterations_is_the_error_of_their_mean(
    tmp_path: Path, num_iterations: int, error: float
) -> None:
    iterations = "".join(f"Iter #{n}: {140 + n}.0 img/sec per GPU\n" for n in range(num_iterations))
    text = f"Model: resnet50\n{iterations}Total img/sec on 4 GPU(s): 587.6 +-3.92\n"
    (row,) = read_part(PrintedRates, text, tmp_path)[0]["throughput"].to_dict("records")
    assert row["error"] == pytest.approx(error)
    assert pd.isna(row["num_values"]) == (num_iterations < 2)


def test_other_totals_state_no_error(tmp_path: Path) -> None:
    (row,) = read_part(PrintedRates, TF_CNN, tmp_path)[0]["throughput"].to_dict("records")
    assert pd.isna(row["error"])

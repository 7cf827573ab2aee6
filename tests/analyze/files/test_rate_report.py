from pathlib import Path

import pandas as pd
import pytest

from hvdprof.analyze.files.rate_report import rates_verdict
from hvdprof.ingest.logs.printed_file import read_printed_file
from hvdprof.model.file_page import FileVerdict, Gravity

PAUSE = """\
Batch size:  64 global
             32 per device
Devices:     ['horovod/gpu:0', 'horovod/gpu:1']
10\timages/sec: 100.0 +/- 0.1 (jitter = 0.3)\t7.1
20\timages/sec: 100.0 +/- 0.1 (jitter = 0.3)\t7.1
30\timages/sec: 100.0 +/- 0.1 (jitter = 0.3)\t7.1
40\timages/sec: 60.0 +/- 9.1 (jitter = 0.3)\t7.1
50\timages/sec: 65.2 +/- 9.1 (jitter = 0.3)\t7.1
total images/sec: 130.40
"""


def verdict(folder: Path, text: str, name: str = "job.log") -> FileVerdict:
    path = folder / name
    path.write_text(text)
    return rates_verdict(dict(read_printed_file(path).tables).get("printed_rates", pd.DataFrame()))


def timm(number: int, time: float, mean: float, data: float, mean_data: float) -> str:
    return (
        f"Train: 0 [{number:>4d}/1251 (  4%)]  Loss: 6.9 (6.9)  Time: {time:.3f}s, "
        f"{1024 / time:>7.2f}/s  ({mean:.3f}s, {1024 / mean:>7.2f}/s)  LR: 1.0e-06  "
        f"Data: {data:.3f} ({mean_data:.3f})\n"
    )


def test_rate_scope_samples_per_step_and_data_wait_without_the_first_line(tmp_path: Path) -> None:
    text = timm(0, 4.512, 4.512, 3.101, 3.101) + timm(50, 0.402, 0.483, 0.011, 0.074)
    found = verdict(tmp_path, text)
    assert found.sentence == (
        "2,547 samples/s of all ranks together (timm, in the one line after the first), 1,024 "
        "samples per step; 3.3 % of the step time is data wait."
    )
    assert "train_np4.log" in found.caveat
    assert "Number of ranks" not in verdict(tmp_path, text, "timm_np8.log").caveat


def test_slow_steps_without_a_line_of_their_own_are_said(tmp_path: Path) -> None:
    lines = [timm(0, 0.4, 0.4, 0.01, 0.01)]
    lines += [timm(50 * n, 0.4, 0.8, 0.01, 0.41) for n in range(1, 6)]
    found = verdict(tmp_path, "".join(lines))
    assert found.sentence.startswith("2,560 samples/s of all ranks together")
    assert "51.3 % of the step time is data wait" in found.sentence
    assert "The mean of all steps is 1,277 samples/s: steps without a line" in found.caveat


def test_a_step_time_is_no_rate_of_the_job(tmp_path: Path) -> None:
    text = "".join(
        f"Epoch: [0][ {n}/5005]\tTime  0.400 ( 0.400)\tData  0.040 ( 0.040)\tLoss 7.0 (7.0)\n"
        for n in (10, 20, 30)
    )
    found = verdict(tmp_path, text)
    assert found.sentence == (
        "2.50 steps/s as printed (PyTorch ImageNet example, median of 2 lines after the first), "
        "step 400 ms; 10.0 % of the step time is data wait."
    )
    assert found.caveat == ""


def test_a_pause_that_a_running_mean_shows_has_a_length(tmp_path: Path) -> None:
    found = verdict(tmp_path, PAUSE)
    assert found.sentence.startswith("99.9 samples/s per rank (tf_cnn_benchmarks, between 5 lines")
    assert "Between iterations 30 and 40 it pauses for as long as 27 steps (8.53 s)" in found.caveat
    assert found.gravity == Gravity.WARNING


def test_a_running_mean_without_a_pause_has_none(tmp_path: Path) -> None:
    steady = "".join(
        f"{n}\timages/sec: {100 + n % 3 / 10:.1f} +/- 0.1 (jitter = 0.3)\t7.1\n"
        for n in range(10, 2000, 10)
    )
    assert "pauses" not in verdict(tmp_path, steady).caveat


@pytest.mark.parametrize("low", [60, 99])
def test_a_fall_to_another_level_is_said(tmp_path: Path, low: int) -> None:
    rates = [40] + [100 + n % 3 for n in range(20)] + [low + n % 3 for n in range(20)]
    text = "".join(f"Iter #{n}: {rate}.0 img/sec per GPU\n" for n, rate in enumerate(rates))
    found = verdict(tmp_path, text)
    falls = "It falls from 101 to 61.0 samples/s from line 22 on."
    assert (falls in found.caveat) == (low == 60)


def test_epochs_of_keras(tmp_path: Path) -> None:
    line = "1875/1875 [==============================] - 3s {}ms/step - loss: 0.2\n"
    found = verdict(tmp_path, line.format(9) + line.format(2) + line.format(2))
    assert found.sentence == (
        "500 steps/s as printed (Keras, median of 2 epochs after the first), step 2.00 ms."
    )


def test_several_runs_in_one_file_have_no_common_rate(tmp_path: Path) -> None:
    assert not verdict(tmp_path, f"Model: a\n{PAUSE}Model: b\n{PAUSE}").sentence


def test_one_line_with_its_running_mean_is_start_up_and_no_epoch(tmp_path: Path) -> None:
    found = verdict(tmp_path, timm(0, 4.512, 4.512, 3.101, 3.101))
    assert "(timm, in one line alone, with start-up), 1,024 samples per step" in found.sentence


@pytest.mark.parametrize("num_lines", [1, 3])
def test_the_rate_and_the_throughput_leave_out_the_same_lines(
    tmp_path: Path, num_lines: int
) -> None:
    rates = [20.0, 200.0, 201.0][:num_lines]
    tagged = [
        f"[1,{rank}]<stdout>:Iter #{number}: {rate + rank / 10:.1f} img/sec per GPU\n"
        for number, rate in enumerate(rates)
        for rank in range(4)
    ]
    path = tmp_path / "four_np4.log"
    path.write_text("".join(tagged))
    tables = dict(read_printed_file(path).tables)
    sentence = rates_verdict(tables["printed_rates"]).sentence
    if num_lines == 1:
        assert "in the first line of each rank, with start-up" in sentence
        assert "throughput" not in tables or tables["throughput"].empty
    else:
        assert sentence.startswith("201 samples/s per rank")
        # The median of 200.0 to 200.3 and 201.0 to 201.3.
        assert tables["throughput"]["samples_per_s"].tolist() == pytest.approx([4 * 200.65])


def test_units_of_a_step_are_of_the_rank_where_the_rate_is(tmp_path: Path) -> None:
    line = "completed step: 9, seconds: 2.000, TFLOP/s/device: 2.9, Tokens/s/device: 500.0, loss\n"
    assert "1,000 tokens per rank and step." in verdict(tmp_path, line).sentence


def test_steps_that_take_far_longer_are_said(tmp_path: Path) -> None:
    times = (900, 800, 20_000, 800, 21_000, 800)
    text = "".join(f"iter {n}: loss 4.1, time {time}.00ms\n" for n, time in enumerate(times))
    found = verdict(tmp_path, text)
    assert found.caveat.startswith("2 of 5 of these lines took over twice as long as the median")


def test_two_lines_without_a_number_may_be_two_runs(tmp_path: Path) -> None:
    text = "global_step/sec: 1.25\nglobal_step/sec: 2.5\n"
    assert "which says 1.25 steps/s)" in verdict(tmp_path, text).sentence

# ruff: noqa: E501  (lines of logs are as long as they are)
import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hvdprof.api import analyze_files, analyze_run, load_run, scaling_of_files
from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.logs.nemo_log import NemoLog
from hvdprof.ingest.logs.printed_file import read_printed_file
from hvdprof.ingest.rundir.attach_sources import Given
from hvdprof.ingest.rundir.attached_run import Stated, attach
from tests.builders.examples import examples
from tests.builders.places import RECORDINGS
from tests.builders.printed import read_part

NEMO = RECORDINGS / "nemo"
LINES, BARS = NEMO / "lines_np8.txt", NEMO / "bars_np16.txt"
WORLD = "All distributed processes registered. Starting with 4 processes\n"


def line(number: int, seconds: str, more: str = " | consumed_samples: 8") -> str:
    return f"Training epoch 0, iteration {number}/99 | lr: 3e-06 | global_step: {number} | train_step_timing in s: {seconds}{more}\n"


def bar(number: int, step: float, seconds: str, samples: str | None = None) -> str:
    drawn = samples or f"{(step + 1) * 64:.1f}"
    return f"Epoch 0: :  12%|#2        | {number}/1000 [02:31<18:29, 1.26s/it, v_num=0, reduced_train_loss=6.870, global_step={step:.1f}, consumed_samples={drawn}, train_step_timing in s={seconds}]"


def read(text: str, folder: Path) -> dict[str, list[object]]:
    rows = read_part(NemoLog, text, folder)[0]["training_iterations"]
    return {str(name): rows[name].tolist() for name in rows}


def test_lines_of_nemo_2_are_iterations_and_a_throughput() -> None:
    run = load_run(LINES)
    rows = run.training_iterations
    assert list(rows["iteration"]) == list(range(14))
    assert list(rows["step_ns"][:3]) == [23_520_000_000, 2_213_000_000, 2_226_000_000]
    assert set(rows["np"]) == {8}
    assert set(rows["global_batch_size"]) == {512}
    assert rows["tflops_per_gpu"].iloc[0] == 865.7
    (throughput,) = run.throughput.to_dict("records")
    assert (throughput["series"], throughput["np"]) == ("NeMo iterations", 8)
    assert throughput["samples_per_s"] == pytest.approx(512 / 2.213)


def test_each_iteration_of_a_progress_bar_counts_once_with_its_own_values() -> None:
    rows = load_run(BARS).training_iterations
    assert list(rows["iteration"]) == list(range(1, 15))
    expected = [9000, *(1200 + 10 * (number % 5) for number in range(1, 14))]
    assert list(rows["step_ns"] // 10**6) == expected
    assert set(rows["np"]) == {16}
    assert set(rows["global_batch_size"]) == {512}


@pytest.mark.heavy
def test_both_sizes_together_are_scaling_with_an_interval() -> None:
    found = scaling_of_files([NEMO])
    (verdict,) = found.verdicts
    assert verdict.sentence.startswith("NeMo iterations: 90.9 ± 0.8 % scaling efficiency on 16")


@pytest.mark.heavy
def test_the_verdict_and_the_facts_are_those_of_megatron() -> None:
    (page,) = analyze_files(load_run(BARS)).files
    assert (page.kind, page.verdict) == (
        "NeMo log",
        "Iteration: median 1,220 ms, 420 samples/s.",
    )
    assert {fact.name for fact in page.facts} >= {"num_iteration_lines", "global_batch_size"}


@pytest.mark.heavy
def test_attach_takes_the_ranks_that_the_log_states(tmp_path: Path) -> None:
    attach(tmp_path / "run", Given(recordings=[BARS]), Stated(name="mine"))
    analysis = analyze_run(load_run(tmp_path / "run"))
    assert analysis.run.manifest.passes[0].size == 16
    assert "1,220 ms" in analysis.verdict.sentence


def test_bars_without_breaks_between_them_are_read(tmp_path: Path) -> None:
    text = bar(1, 0, "9.000") + "[A^M" + bar(2, 1, "1.230") + "[rank: 1] Metric val_loss\n"
    assert read(text, tmp_path)["iteration"] == [1, 2]


def test_the_batch_size_follows_from_exact_samples_alone(tmp_path: Path) -> None:
    text = "\r".join([bar(1, 0, "9.0"), bar(5, 4, "1.2"), bar(9, 8, "1.2", "1.63e+6")])
    assert read(text, tmp_path)["global_batch_size"] == [64, 64, 64]
    rounded = "\r".join([bar(1, 0, "9.0", "1.63e+6"), bar(5, 4, "1.2", "1.65e+6")])
    rows = read_part(NemoLog, rounded, tmp_path)[0]["training_iterations"]
    assert rows["global_batch_size"].isna().sum() == 2


def test_the_bar_of_the_next_epoch_begins_with_nothing_new(tmp_path: Path) -> None:
    next_epoch = bar(0, 99, "1.2").replace("Epoch 0", "Epoch 1")
    text = "\r".join([bar(99, 98, "1.3"), bar(100, 99, "1.2"), next_epoch])
    assert read(text, tmp_path)["iteration"] == [99, 100]


def test_a_bar_with_the_values_of_the_one_before_is_none_of_its_own(tmp_path: Path) -> None:
    text = "\r".join([bar(1, 0, "9.0"), bar(2, 0, "9.0"), bar(3, 2, "1.2")])
    assert read(text, tmp_path)["iteration"] == [1, 3]


def test_a_line_cut_within_its_length_is_left_out(tmp_path: Path) -> None:
    whole = line(0, "7.126", "") + line(1, "2.505")
    assert read(whole, tmp_path)["step_ns"] == [7_126_000_000, 2_505_000_000]
    assert read(whole + line(2, "1", "")[:-1], tmp_path)["iteration"] == [0, 1]


def test_lengths_may_be_printed_with_an_exponent(tmp_path: Path) -> None:
    text = line(0, "1.5e+03", " | TFLOPS_per_GPU: 1.249e+03") + line(1, "nan") + line(2, "9e99")
    rows = read(text, tmp_path)
    assert (rows["step_ns"], rows["tflops_per_gpu"]) == ([1_500_000_000_000], [1249.0])


def test_bars_without_lengths_say_what_to_set(tmp_path: Path) -> None:
    text = "Epoch 0:   1%|          | 795/77225 [9:07:58<878:01:48, 41.36s/it, loss=3.1, v_num=, reduced_train_loss=3.090, global_step=794.0, consumed_samples=1.63e+6]\n"
    (tmp_path / "job.out").write_text(WORLD + text)
    with pytest.raises(UnreadableInputError, match=r"set exp_manager\.log_step_timing=True"):
        load_run(tmp_path / "job.out")


def test_bars_of_lightning_are_not_taken_for_bars_of_nemo(tmp_path: Path) -> None:
    bars = [
        f"Epoch 0:   1%|#    | {n}/77225 [9:07:58<87:01:48, 4.36s/it, v_num=1]\n" for n in (1, 2)
    ]
    (tmp_path / "job.out").write_text("".join(bars))
    printed = read_printed_file(tmp_path / "job.out")
    assert (printed.kinds, printed.notes) == (["Lightning output"], [])


@pytest.mark.heavy
@settings(max_examples=examples(80), deadline=None)
@given(data=st.data())
def test_no_damage_is_an_error(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(data.draw(st.sampled_from([LINES, BARS])).read_bytes())
    for _ in range(data.draw(st.integers(0, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("nemo") / "job.out"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    tables = dict(read_printed_file(path).tables)
    rows = tables.get("training_iterations")
    assert rows is None or (rows["step_ns"] > 0).all()


@pytest.mark.heavy
@pytest.mark.parametrize("packed", [False, True])
def test_an_epoch_in_one_line_of_a_progress_bar_loses_no_iteration(
    tmp_path: Path, packed: bool
) -> None:
    number = 20_000
    bars = "\r".join(bar(one + 1, float(one), f"{1 + one % 7 / 10:.3f}") for one in range(number))
    content = f"{WORLD}{bars}\n".encode()
    assert len(content) > 3_000_000
    path = tmp_path / "log"
    path.write_bytes(gzip.compress(content) if packed else content)
    rows = load_run(path).training_iterations
    assert list(rows["iteration"]) == list(range(1, number + 1))
    assert set(rows["line"]) == {2}

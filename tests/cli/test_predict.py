import csv
import io
import json

import pytest

from hvdprof.report.answers.scores import forecast_answer
from hvdprof.report.format_names import Format
from tests.builders.finished_forecast import finished_forecast
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run
from tests.builders.running_command import hvdprof
from tests.builders.served_dashboard import measured_run

pytestmark = pytest.mark.slow

TABLE = "np,samples/s\n1,872\n8,6679\n16,12828\n32,23870\n"


def predict(*arguments, text=""):
    return hvdprof("predict", *map(str, arguments), text=text)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return measured_run(tmp_path_factory.mktemp("runs") / "run")


def test_a_run_is_predicted_and_the_forecast_is_stored(run):
    ended = predict(run, "--np", "2,4,8", "--link", "25Gbit,15us", "--format", "json")

    assert ended.returncode == 0, ended.stderr
    content = json.loads(ended.stdout)
    assert [row["np"] for row in content["forecast"]] == [4, 8]
    assert all(
        row["efficiency_p5"] is None or row["efficiency_p5"] < row["efficiency_p95"]
        for row in content["forecast"]
    )
    assert "np=2 not predicted: np=2 is measured." in content["assumptions"]
    (stored,) = (run / "forecasts").glob("*.json")
    assert json.loads(stored.read_text())["forecast"] == content["forecast"]


def test_a_forecast_that_cannot_be_stored_is_shown_with_a_warning(tmp_path):
    folder = measured_run(tmp_path / "run")
    (folder / "forecasts").write_text("no folder")
    ended = predict(folder, "--np", "4", "--link", "25Gbit,15us")
    assert ended.returncode == 0, ended.stderr
    assert "scaling efficiency on 4 ranks" in " ".join(ended.stdout.split())
    assert ended.stderr.startswith("! The forecast is not stored, and not scored later. ")


def test_a_table_is_predicted_as_by_scaling():
    ended = predict("--table", "-", "--np", "64", "--format", "csv", text=TABLE)

    assert ended.returncode == 0, ended.stderr
    (row,) = csv.DictReader(io.StringIO(ended.stdout))
    assert row["np"] == "64"
    assert 44_000 < float(row["samples_per_s_p50"]) < 48_000


def test_step_times_of_a_table_are_predicted_with_their_unit():
    table = "1:100\n2:104\n4:108\n8:113\n"
    words = ("--table", "-", "--np", "16", "--format", "csv", "--scaling", "strong")
    as_times = predict(*words, "--unit", "ms/step", text=table)

    assert as_times.returncode == 0, as_times.stderr
    (row,) = csv.DictReader(io.StringIO(as_times.stdout))
    assert float(row["efficiency_p50"]) < 0.1
    assert predict("--unit", "s/step", "--model", "mnist", "--samples-per-s", "9").returncode == 2


def test_a_result_goes_to_a_file_that_is_not_replaced(tmp_path):
    file = tmp_path / "f.txt"
    first = predict("--table", "-", "--np", "64", "-o", file, text=TABLE)
    again = predict("--table", "-", "--np", "64", "-o", file, text=TABLE)

    assert first.returncode == 0, first.stderr
    assert "scaling efficiency on 64 ranks" in file.read_text()
    assert again.returncode == 7


def test_a_run_without_forecasts_cannot_be_scored(tmp_path):
    alone = [PassSpec(size=1, segments=[SegmentSpec(parts_ms=typical_parts(10))])]
    folder = write_run(tmp_path / "run", alone)

    ended = predict("--score", folder)

    assert ended.returncode == 3
    assert "No forecast to score" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "Name one source"),
        (("RUN", "--table", "x.csv"), 2, "Name one source"),
        (("RUN", "RUN"), 2, "One run is predicted from, not 2."),
        (("RUN", "--np", "1,2"), 2, "np=2 is measured, and only larger sizes are"),
        (("RUN", "--np", "8", "--link", "25foo"), 2, "--link '25foo' has no bandwidth"),
        (("RUN", "--np", "8", "--intra", "x"), 2, "--intra 'x' names no link"),
        (("RUN", "--np", "8", "--set", "fp16"), 2, "--set 'fp16' is not NAME=VALUE."),
        (("RUN", "--np", "8", "--engine", "ddp"), 2, "no launch of mnist under DDP"),
        (("RUN", "--np", "8", "--model", "vgg16"), 2, "The run holds no model 'vgg16'."),
        (("RUN", "--target", "120%"), 2, "must be an efficiency above 0 and at most 100 %"),
        (("--model", "vgg16"), 2, "requires --samples-per-s: the throughput of one rank alone"),
        (("RUN", "--price", "0"), 2, "--price 0: must be above 0."),
        (("--score",), 2, "--score requires run directories."),
        (("--table", "x.csv", "--link", "25Gbit"), 2, "--link has no effect here"),
        (("nowhere",), 3, "nowhere does not exist."),
        (("--samples-per-s", "154"), 2, "--samples-per-s requires --model."),
    ],
)
def test_bad_input_gives_one_message_and_an_exit_code(run, arguments, code, message):
    ended = predict(*(run if word == "RUN" else word for word in arguments))

    assert ended.returncode == code, ended.stderr
    assert message in ended.stderr
    assert ended.stderr.startswith("hvdprof: ")
    assert "Traceback" not in ended.stderr
    assert len(ended.stderr.splitlines()) <= 2


def test_one_rank_and_oversubscribed_ranks_alone_are_refused(tmp_path):
    parts = [SegmentSpec(parts_ms=typical_parts(10))]
    alone = write_run(tmp_path / "one", [PassSpec(size=1, segments=parts)])
    crowded = PassSpec(size=4, segments=parts, oversubscribed=True)
    over = write_run(tmp_path / "over", [PassSpec(size=1, segments=parts), crowded])

    for folder, message in (
        (alone, "was measured on 1 rank alone"),
        (over, "ran oversubscribed on 4 ranks"),
    ):
        ended = predict(folder, "--np", "8")
        assert ended.returncode == 2, ended.stderr
        assert message in ended.stderr


@pytest.mark.parametrize("format_", [Format.TERMINAL, Format.JSON, Format.CSV])
def test_each_format_has_a_renderer(format_):
    stream = io.StringIO()

    forecast_answer(finished_forecast(), price=2.5).write(format_, stream)

    assert stream.getvalue()


def test_a_model_without_a_run_is_predicted_from_the_throughput_of_one_rank():
    pytest.importorskip("torch")
    network = ("--link", "25Gbit,15us", "--hosts-of", "4")

    ended = predict(
        *("--model", "resnet18", "--samples-per-s", "300-330", "--np", "8,64"),
        *network,
        *("--draws", "200", "--format", "json"),
    )

    assert ended.returncode == 0, ended.stderr
    content = json.loads(ended.stdout)
    assert [(row["np"], row["num_hosts"]) for row in content["forecast"]] == [(8, 2), (64, 16)]
    assert content["scenarios"] == ["25Gbit,15us"]


def test_a_run_in_progress_without_steps_says_so(tmp_path):
    passes = [PassSpec(size=1, segments=[SegmentSpec(parts_ms=typical_parts(10))])]
    ended = predict(write_run(tmp_path / "run", passes, status="running"), "--np", "8")

    assert ended.returncode == 2, ended.stderr
    assert "It is in progress: 1 of 1 launches have ended." in ended.stderr
    assert "Repeat the command when more launches have ended." in ended.stderr


def test_a_run_in_progress_is_predicted_from_what_has_ended(tmp_path):
    parts = [SegmentSpec(parts_ms=typical_parts(10, 2))]
    passes = [PassSpec(size=size, segments=parts) for size in (1, 2)]
    folder = write_run(tmp_path / "run", passes, status="running")

    ended = predict(folder, "--np", "8", "--format", "json")

    assert ended.returncode == 0, ended.stderr
    sentence = "The run is in progress: 2 of 2 launches have ended."
    assert sentence in json.loads(ended.stdout)["assumptions"]

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.builders.iteration_logs import correlated_steps, write_log
from tests.builders.run_directory import PassSpec, write_run
from tests.builders.running_command import hvdprof

pytestmark = pytest.mark.slow


def scaling(*arguments, text=""):
    return hvdprof("scaling", *arguments, text=text)


def test_pairs_from_a_pipe_get_a_verdict_and_a_table():
    ended = scaling("-", text="1:872 8:6679 128:89783\n")

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("80.4 % scaling efficiency on 128 ranks against np=1")
    assert "89,783" in ended.stdout


def test_a_serial_fraction_outside_0_to_100_percent_is_not_meaningful():
    ended = scaling("-", text="1:100 2:210 4:90\n")

    rows = [line for line in ended.stdout.splitlines() if line.split()[:1] in (["2"], ["4"])]
    assert [line.endswith("not meaningful") for line in rows] == [True, True]
    assert "(Karp-Flatt) is not meaningful above 100 %." in " ".join(ended.stdout.split())


def test_a_file_as_json(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("np,samples/s\n1,100\n2,180\n")

    content = json.loads(scaling(str(file), "--format", "json").stdout)

    assert [row["efficiency"] for row in content["throughput_scaling"]] == [1.0, pytest.approx(0.9)]
    assert content["throughput_scaling"][0]["karp_flatt"] is None
    assert content["verdicts"][0].startswith("90.0 %")


def test_unreadable_input_is_an_error_without_a_traceback(tmp_path):
    for arguments, text in ((("-",), "nothing"), ((str(tmp_path / "no.csv"),), "")):
        ended = scaling(*arguments, text=text)

        assert ended.returncode == 3
        assert ended.stderr.startswith("hvdprof: ")
        assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "standard input is empty."),
        ("np,imgs\n1,872\n8,6679\n", "standard input has the columns np, imgs: no pair of"),
        ("nothing", "standard input holds no table of two numbers of ranks or more."),
    ],
)
def test_a_text_without_a_table_is_refused_with_what_it_holds(text, said):
    ended = scaling("-", text=text)

    assert said in ended.stderr
    assert "Two columns, np and samples/s" in ended.stderr


def test_the_unit_is_read_from_the_column_name_and_no_rate_is_made_up():
    ended = scaling("-", text="np;step_time_ms\n1;262\n4;381\n8;n/a\n")

    assert ended.stdout.startswith("68.8 % scaling efficiency on 4 ranks")
    assert "samples/s" not in ended.stdout
    assert "! Line 4 `8;n/a` was skipped: ms/step is not a number above 0." in ended.stdout


def test_one_rank_count_alone_is_refused_with_what_is_missing(tmp_path):
    ended = scaling("-", text="np,samples/s\n2,10\n2,11\n")

    assert ended.returncode == 3
    assert "needs rows for at least two rank counts; found np=2 only." in ended.stderr


def test_sizes_beyond_the_table_are_predicted_with_bands():
    ended = scaling("-", "--np", "256,512", text="1:872 8:6679 128:89783\n")

    assert ended.returncode == 0, ended.stderr
    assert "scaling efficiency on 512 ranks" in ended.stdout
    assert "90 % band" in ended.stdout


def test_sizes_that_the_table_holds_are_refused():
    ended = scaling("-", "--np", "8", text="1:872 8:6679 128:89783\n")

    assert ended.returncode == 2
    assert ended.stderr == (
        "hvdprof: Nothing to predict at np=8: np=128 is measured, and only larger sizes are "
        "predicted.\n  --np 256,512,1024\n"
    )


@pytest.fixture
def logs(tmp_path):
    rng = np.random.default_rng(6)
    return [
        str(
            write_log(
                tmp_path / f"np{size}.log",
                size,
                correlated_steps(rng, 100, mean, spread=0.02, correlation=0.5),
            )
        )
        for size, mean in ((8, 500.0), (16, 270.0), (32, 150.0))
    ]


def test_logs_of_several_sizes_are_one_curve_with_intervals(logs, tmp_path):
    ended = scaling(*logs)

    assert ended.returncode == 0, ended.stderr
    assert re.match(r"Megatron iterations: 8\d\.\d ± \d\.\d % scaling efficiency", ended.stdout)
    (row,) = [line for line in ended.stdout.splitlines() if line.startswith("  32 ")]
    assert row.count("±") == 3
    assert scaling(str(tmp_path)).stdout == ended.stdout
    found = json.loads(scaling(*logs, "--format", "json").stdout)["throughput_scaling"]
    assert [row["np"] for row in found] == [8, 16, 32]
    assert all(row["samples_per_s_low"] < row["samples_per_s_high"] for row in found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--np", "64"), "echo 8:5"),
        (("--unit", "ms/step"), "logs state samples per second"),
        (("-",), "Standard input is read alone"),
    ],
)
def test_what_several_logs_do_not_take_is_refused(logs, arguments, message):
    ended = scaling(*logs, *arguments)

    assert ended.returncode == 2
    assert message in ended.stderr


def test_one_log_alone_is_refused_with_what_is_missing(logs):
    ended = scaling(logs[0])

    assert ended.returncode == 3
    assert "the logs of several rank counts together" in ended.stderr


TIMM = (
    "Train: 0 [{n:>4}/100 ({n:>3}%)]  Loss: 6.9 (6.9)  Time: {step:.4f}s, {rate:.1f}/s  "
    "({step:.4f}s, {rate:.1f}/s)  LR: 1.0e-1  Data: 0.002 (0.002)\n"
)


@pytest.fixture
def rates(tmp_path):
    """Two logs whose lines and names state no number of ranks."""
    files = []
    for name, rate in (("first.log", 1000.0), ("second.log", 3600.0)):
        file = tmp_path / name
        lines = (TIMM.format(n=n, step=256 / rate, rate=rate) for n in range(0, 100, 20))
        file.write_text("".join(lines))
        files.append(str(file))
    return files


def test_np_states_the_ranks_of_files_that_do_not(rates):
    ended = scaling(*rates, "--np", "1,4")

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("timm: 90.0 % scaling efficiency on 4 ranks against np=1")
    assert "90.0 %" in hvdprof("analyze", *rates, "--np", "1,4").stdout


def test_what_a_file_states_counts_more_than_np(rates):
    log = Path(rates[1])
    log.write_text(f"training on 8 devices (GPUs/TPUs)\n{log.read_text()}")

    ended = scaling(*rates, "--np", "1,4")

    assert "scaling efficiency on 8 ranks against np=1" in ended.stdout


def test_files_without_ranks_say_how_to_state_them(rates):
    assert "State the ranks of each with --np 1,4" in " ".join(scaling(*rates).stderr.split())
    ended = hvdprof("analyze", *rates, "--np", "1,4,8")
    assert "--np has 3 numbers of ranks for 2 files." in ended.stderr


def test_pairs_may_be_words_of_the_command():
    ended = scaling("1:872", "8:6679", "128:89783")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("80.4 % scaling efficiency on 128 ranks against np=1")
    for word in ("rates.csv", "8:fast"):
        refused = scaling("1:872", word)
        assert refused.stderr.startswith(f"hvdprof: '{word}' is no pair of ranks and speed.")
        assert refused.returncode == 2


@pytest.mark.parametrize(
    ("text", "efficiency"),
    [
        ("gpus;img/s\n1;402,5\n2;780\n", 0.969),
        ("gpus;img/s\n1;1.402,5\n2;2780,0\n", 0.991),
        ('gpus,img/s\n1,402.5\n2,"1,780"\n', 2.211),
        ("gpus\timg/s\n1\t1,402\n2\t2,780\n", 0.991),
    ],
)
def test_a_comma_is_read_as_its_table_means_it(tmp_path, text, efficiency):
    file = tmp_path / "t.csv"
    file.write_text(text)
    (_, row) = json.loads(scaling(str(file), "--format", "json").stdout)["throughput_scaling"]
    assert row["efficiency"] == pytest.approx(efficiency, abs=1e-3)


def test_a_comma_that_may_be_of_decimals_is_no_number(tmp_path):
    file = tmp_path / "t.tsv"
    file.write_text("gpus\timg/s\n1\t402,5\n2\t780\n")
    assert "found np=2 only" in scaling(str(file)).stderr


def test_a_run_directory_without_printed_rates_names_its_own_command(tmp_path):
    run = write_run(tmp_path / "jobs" / "run", [PassSpec()])
    for given in (run, run.parent):
        result = scaling(str(given))
        assert result.returncode == 3
        assert f"See how a run directory scaled: hvdprof analyze {run}" in result.stderr

"""Every format of a tuning, against golden texts of one with known numbers."""

import dataclasses
import json
import math
from pathlib import Path

import pytest

from hvdprof.errors import UsageError
from hvdprof.model.results.tuning import Estimate
from hvdprof.report.answers.tuning import SUFFIXES, gain_text, tuning_answer
from hvdprof.report.format_names import TuningFormat
from hvdprof.report.formats import format_of_file
from tests.builders.finished_tuning import nothing_to_gain, tuning
from tests.builders.written import written

TERMINAL = """\
Set HOROVOD_CYCLE_TIME=1 OMP_NUM_THREADS=1: step time -52.1 % (95 % CI -54.0 % to -50.2 %), \
throughput +108.8 %.
HOROVOD_CYCLE_TIME=1 OMP_NUM_THREADS=1 hvdprof run --np 2 -- python train.py --name 'a b'
Caveat: NCCL_ALGO=x failed.
python train.py --name 'a b' on 2 ranks
Present setting: train on 2 ranks: 1,360 ± 50 samples/s.
5 min 12 s, saved in runs/20261122-181616-tune. Show it again: hvdprof tune
runs/20261122-181616-tune

Tried
setting predicted gain measured gain rounds outcome
HOROVOD_CYCLE_TIME=1 45.0 % 43.0 % 4 confirmed
(40.0 to 50.0) (38.0 to 47.8)
OMP_NUM_THREADS=1 - 12.0 % 4 confirmed
(CI unknown)
controller gloo - 4.5 x the time 1 worse
(4.0 to 5.0)
NCCL_ALGO=x - - 0 failed
Gains are shares of the step time, per sample. Intervals of the race hold
together with 95 %; less than 2 % does not matter.

Checked anew
setting gain launches outcome
HOROVOD_CYCLE_TIME=1 44.0 % (41.0 to 46.8) 3 confirmed
HOROVOD_CYCLE_TIME=1 + 52.1 % (50.2 to 54.0) 3 confirmed
OMP_NUM_THREADS=1

Why
HOROVOD_CYCLE_TIME=1: The cycle is set to 50 ms; Horovod's default is 1 ms.
OMP_NUM_THREADS=1: 2 ranks with 2 threads each on 2 cores: more threads than
cores.
NCCL_ALGO=x: --try asks for it. failed: rank 1 exited with code 3.

Predictions
1 of 1 predicted gain agree with the measured interval.
OMP_NUM_THREADS=1: not predicted. A replay repeats the computation as it was
measured.

Not tried
--fp16: it changes the arithmetic; --allow-numerics tries it.
cache_capacity: all tensors fit.
"""

MARKDOWN_HEAD = """\
**Nothing to gain beyond 3.1 % of the step time: no gain of 1 setting is beyond noise.**

python train.py --name 'a b' on 2 ranks

- Present setting: train on 2 ranks: 1,360 ± 50 samples/s.
- 5 min 12 s, saved in runs/20261122-181616-tune. Show it again: hvdprof tune \
runs/20261122-181616-tune
"""


def test_the_terminal_leads_with_the_verdict_and_the_line_to_copy():
    text = written(tuning_answer(tuning()), width=80)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines == TERMINAL.splitlines()


def test_without_a_gain_there_is_no_line_to_copy():
    lines = written(tuning_answer(nothing_to_gain())).splitlines()
    assert lines[0].startswith("Nothing to gain beyond 3.1 %")
    assert lines[1].strip() == "python train.py --name 'a b' on 2 ranks"


def test_markdown_of_nothing_to_gain_is_short():
    assert written(tuning_answer(nothing_to_gain()), "markdown") == MARKDOWN_HEAD


def test_markdown_has_the_line_as_code_and_tables_of_all_that_ran():
    text = written(tuning_answer(tuning()), "markdown")
    assert "\n    HOROVOD_CYCLE_TIME=1 OMP_NUM_THREADS=1 hvdprof run --np 2 -- " in text
    assert (
        "| HOROVOD\\_CYCLE\\_TIME=1 | 45.0 % (40.0 to 50.0) | 43.0 % (38.0 to 47.8) | 4 |" in text
    )
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 4 + 2 + 2
    assert {line.count("|") for line in rows[:6]} == {6}


def test_json_keeps_every_digit_and_has_null_for_open_ends():
    text = written(tuning_answer(tuning()), "json")
    content = json.loads(text)
    assert "NaN" not in text
    assert content["schema_version"] == 1
    assert content["gain"] == {"value": 0.521, "low": 0.502, "high": 0.54}
    assert content["trials"][1]["gain"]["low"] is None
    assert content["trials"][0]["candidate"]["environment"] == {"HOROVOD_CYCLE_TIME": "1"}
    assert content["environment"] == {"HOROVOD_CYCLE_TIME": "1", "OMP_NUM_THREADS": "1"}


def test_every_format_has_what_writes_it():
    for format_ in TuningFormat:
        assert "Set HOROVOD" in written(tuning_answer(tuning()), format_).replace("\\", "")


def test_the_name_of_a_file_chooses_its_format():
    assert format_of_file(Path("a.json"), SUFFIXES, "a tuning") is TuningFormat.JSON
    assert format_of_file(Path("a.html"), SUFFIXES, "a tuning") is TuningFormat.HTML
    assert format_of_file(Path("a.md.gz"), SUFFIXES, "a tuning") is TuningFormat.MARKDOWN
    with pytest.raises(UsageError, match="No format of a tuning"):
        format_of_file(Path("a.csv"), SUFFIXES, "a tuning")


@pytest.mark.parametrize(
    ("gain", "text"),
    [
        (None, "-"),
        (Estimate(0.1, 0.05, 0.15), "10.0 % (5.0 to 15.0)"),
        (Estimate(0.1, -4.0, 0.9), "10.0 % (-400.0 to 90.0)"),
        (Estimate(0.1, -math.inf, 0.9), "10.0 % (CI unknown)"),
        (Estimate(-22.5, -40.0, -8.0), "23.5 x the time (9.0 to 41.0)"),
        (Estimate(-22.5, math.nan, -8.0), "23.5 x the time (CI unknown)"),
    ],
)
def test_gains_as_text(gain, text):
    assert gain_text(gain) == text


@pytest.mark.parametrize("name", [TuningFormat.TERMINAL, TuningFormat.MARKDOWN])
def test_an_argument_of_ddp_is_shown_as_the_script_writes_it(name) -> None:
    call = "DistributedDataParallel(..., bucket_cap_mb=25)"
    of_call = dataclasses.replace(tuning(), in_code=call)
    text = written(tuning_answer(of_call), name).replace("\\", "")
    assert f"In the script: {call}" in " ".join(text.split())
    assert text.index("hvdprof run --np 2") < text.index(call) < text.index("Caveat: ")


def test_without_time_for_a_race_the_command_that_resumes_is_line_2():
    first = tuning().trials[0]
    short = dataclasses.replace(first, outcome="not tried", gain=None, reason="too short")
    found = dataclasses.replace(
        nothing_to_gain(), trials=(short,), next_line="hvdprof tune --resume runs/a -- python a.py"
    )

    text = written(tuning_answer(found), width=120)

    assert text.splitlines()[1] == f"Resume with: {found.next_line}"
    assert (
        "HOROVOD_CYCLE_TIME=1: too short. Predicted gain: 45.0 % (40.0 to 50.0). The cycle is set"
    ) in text
    assert f"Resume with:\n\n    {found.next_line}\n" in written(tuning_answer(found), "markdown")

"""Faults as text, and when they are due."""

import pytest

from hvdprof.errors import UsageError
from hvdprof.rundir.recording.fault_plan import parse_fault, parse_faults, to_text


def due(text: str, size: int = 3, steps: int = 6) -> list[tuple[int, int]]:
    fault = parse_fault(text)
    return [(s, r) for s in range(steps) for r in range(size) if fault.is_due(r, size, s)]


def test_lengths_in_every_unit():
    assert parse_fault("pause:amount=1.5s").length_ns(7) == 1.5e9
    assert parse_fault("sleep:phase=data,amount=20ms").length_ns(7) == 20e6
    assert parse_fault("cpu:phase=forward,amount=10%").length_ns(200) == 20


def test_when_it_is_due():
    assert due("pause:rank=1,amount=1ms", steps=2) == [(0, 1), (1, 1)]
    assert due("pause:rank=0+2,amount=1ms,every=3") == [(0, 0), (0, 2), (3, 0), (3, 2)]
    assert due("pause:amount=1ms,rotating=yes,every=2") == [(i, i // 2) for i in range(6)]


@pytest.mark.heavy
def test_a_fault_lasts_from_its_first_to_its_last_step():
    fault = parse_fault("sleep:phase=data,rank=1,amount=1ms,every=2,first=3,last=6")
    assert [step for step in range(12) if fault.is_due(1, 2, step)] == [4, 6]


def test_random_faults_follow_from_the_seed():
    text = "pause:rank=1,amount=1ms,probability=0.25,seed={}"
    first = due(text.format(1), steps=2000)
    assert first == due(text.format(1), steps=2000)
    assert first != due(text.format(2), steps=2000)
    # Three standard deviations around 500.
    assert 440 < len(first) < 560


def test_several_survive_the_way_through_the_environment():
    text = "pause:rank=1,amount=1ms;sleep:phase=backward,amount=5%"
    faults = parse_faults(text)
    assert [fault.phase for fault in faults] == ["", "backward"]
    assert to_text(faults) == text
    assert parse_faults("") == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "crash:amount=1ms",
        "sleep:amount=1ms",
        "sleep:phase=validation,amount=1ms",
        "pause:phase=data,amount=1ms",
        "pause:amount=1",
        "pause:amount=0ms",
        "pause:amount=61s",
        "pause:amount=1001%",
        "pause:amount=1ms,every=0",
        "pause:amount=1ms,rank=-1",
        "pause:amount=1ms,amount=2ms",
        "pause:amount=1ms,rotating=perhaps",
        "pause:amount=1ms,rotating=yes,probability=0.5",
        "pause:amount=1ms,probability=nan",
        "pause:amount=1ms,colour=red",
    ],
)
def test_what_is_not_a_fault_is_refused(text):
    with pytest.raises(UsageError) as caught:
        parse_fault(text)
    assert "docs/howto/inject.md" in caught.value.hint

from typing import Any

from hvdprof.analyze.findings.line_evidence import line_sentence

ROW: dict[str, Any] = {
    "ranks": "1",
    "process": "main",
    "against": "other ranks",
    "file": "/home/user/transforms.py",
    "line": 41,
    "function": "Dataset.__getitem__",
    "leaf": "",
    "samples": 50,
    "excess_ns": 32e6,
    "excess_low_ns": 30e6,
    "excess_high_ns": 34e6,
    "share": 0.9,
    "num_events": None,
    "of_events": None,
}


def said(**values: Any) -> str:
    return line_sentence(ROW | values)


def test_what_a_line_is_held_against_is_said():
    at = "at transforms.py:41 (Dataset.__getitem__)."
    assert said() == f"Rank 1 spends 32.0 ms (30.0 to 34.0) more per step than the other ranks {at}"
    assert said(ranks="all", against="baseline") == (
        f"The ranks spend a mean of 32.0 ms (30.0 to 34.0) more per step than the baseline {at}"
    )
    assert said(ranks="all", against="alone") == (
        f"Each rank spends at least 32.0 ms (30.0 to 34.0) per step {at}"
    )
    assert (
        said(ranks="1, 3", against="alone")
        == f"Ranks 1 and 3 spend 32.0 ms (30.0 to 34.0) per step {at}"
    )
    assert said(process="worker") == (
        "The DataLoader workers of rank 1 spend 32.0 ms (30.0 to 34.0) more per step than the "
        f"other ranks {at}"
    )
    assert said(process="worker", against="alone", ranks="any", share=0.82) == (
        f"At least 82 % of the busy samples of the DataLoader workers of each rank are {at}"
    )


def test_events_are_counted():
    events = {"num_events": 3, "of_events": 4}
    assert said(against="usual steps", **events) == (
        "3 of 4 events: transforms.py:41 (Dataset.__getitem__), 32.0 ms (30.0 to 34.0) more than "
        "usual each."
    )
    nan = float("nan")
    assert said(
        against="exact",
        function="",
        leaf="torch.save",
        excess_low_ns=nan,
        excess_high_ns=nan,
        **events,
    ) == ("3 of 4 events: transforms.py:41 (torch.save), 32.0 ms each.")

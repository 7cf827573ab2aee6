"""The tables over launches with faults of known truth: what was named, and at which cost.

Used by ``attribution.py`` and ``torch_faults.py``. Tested in
``tests/benchmarks/test_attribution.py``.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

CLOCK = "clock"
OFFSET_MS, DRIFT_PPM = 5.0, 20.0
LEAST_SHARE = 0.05

Result = dict[str, Any]
"""A case and what the analysis says of it: one line of ``cases.jsonl``."""


def table(results: Sequence[Result], step: str = "a 60 ms step") -> str:
    """The Markdown table over all results, one row per rank count and fault size.

    Args:
        results: At least one.
        step: What the shares are of.
    """
    frame = pd.DataFrame(results)
    lines = [
        f"| ranks | fault, of {step} | of the measured step | runs | right rank costliest "
        "| right rank named | right phase named | another rank named "
        "| error of the cost, median (largest) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for _, group in frame[frame["share"] > 0].groupby(["np", "share", "every"]):
        lines.append(_fault_row(_cases(group)))
    for (ranks, phase), group in frame[frame["share"] == 0].groupby(["np", "phase"]):
        alarms = sum(bool(named) for named in group["named"])
        what = "a skewed clock" if phase == CLOCK else "none (clean)"
        lines.append(f"| {ranks} | {what} | | {len(group)} | | | | {alarms} of {len(group)} | |")
    summary = _together(_cases(frame[frame["share"] > 0]))
    lines += ["", summary] if summary else []
    wrong = frame[frame["phase"] == CLOCK]
    if len(wrong):
        right, clocks = wrong["num_clocks_right"].sum(), wrong["num_clocks"].sum()
        lines += [
            "",
            f"Clocks skewed by {OFFSET_MS:g} ms and {DRIFT_PPM:g} ppm, compared over TCP: the "
            f"error was within its bound in {right} of {clocks} exchanges.",
        ]
    lines += ["", _load(frame["load"])]
    return "\n".join(lines)


def _cases(frame: pd.DataFrame) -> list[Result]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _load(loads: "pd.Series[float]") -> str:
    return (
        f"Load average at the end of each of the {len(loads)} cases, on {os.cpu_count()} cores: "
        f"{loads.min():.1f} to {loads.max():.1f}, median {loads.median():.1f}."
    )


def _together(cases: Sequence[Result]) -> str:
    large = [case for case in cases if _true_ns(case) >= LEAST_SHARE * case["step_ns"]]
    named = [(case, one) for case in cases for one in case["named"]]
    right = [(case, one) for case, one in named if one["rank"] == case["rank"]]
    if not large or not right:
        return ""
    hits = [(case, one) for case, one in right if _true_ns(case) >= LEAST_SHARE * case["step_ns"]]
    first = sum(case["first"] == case["rank"] for case in large)
    phases = sum(one["phase"] == case["phase"] for case, one in hits)
    missed = [case for case in large if all(case is not hit for hit, _ in hits)]
    below = sum(case["cost_ns"] < LEAST_SHARE * case["step_ns"] for case in missed)
    of_missed = (
        f"; in {below} of the {len(missed)} missed the rank costs less than that in the replay"
        if missed
        else ""
    )
    errors_ns = np.array([abs(one["cost_ns"] - _true_ns(case)) for case, one in right])
    shares = errors_ns / np.array([case["step_ns"] for case, _ in right])
    return (
        f"Recall, of {len(large)} faults of {LEAST_SHARE:.0%} of the measured step or more: right "
        f"rank costliest {first / len(large):.1%}, named {len(hits) / len(large):.1%}, "
        f"right phase {phases / len(large):.1%}"
        f"{of_missed}. Precision, of {len(named)} ranks named at any size: "
        f"{len(right) / len(named):.1%}. Error of the cost, median and largest: "
        f"{np.median(errors_ns) / 1e6:.2f} and {errors_ns.max() / 1e6:.2f} ms, "
        f"{100 * np.median(shares):.2f} and {100 * shares.max():.2f} points of the step."
    )


def _true_ns(case: Result) -> float:
    """What the fault adds to a step in the mean."""
    return float(case["fault_ns"])


def _fault_row(cases: Sequence[Result]) -> str:
    """The row of cases that differ in the rank, its phase and the repeat alone."""
    hits = [(case, one) for case in cases for one in case["named"] if one["rank"] == case["rank"]]
    phases = sum(one["phase"] == case["phase"] for case, one in hits)
    first = sum(case["first"] == case["rank"] for case in cases)
    wrong = sum(any(one["rank"] != case["rank"] for one in case["named"]) for case in cases)
    errors = np.array([abs(one["cost_ns"] / _true_ns(case) - 1) for case, one in hits])
    of_step = np.median([_true_ns(case) / case["step_ns"] for case in cases])
    error = f"{np.median(errors):.1%} ({errors.max():.1%})" if len(errors) else "not named"
    number = len(cases)
    ranks, share, every = (cases[0][name] for name in ("np", "share", "every"))
    how = f"{share:.0%}" + (f", every {every}th step" if every > 1 else "")
    return (
        f"| {ranks} | {how} | {of_step:.1%} | {number} | {first} of {number} "
        f"| {len(hits)} of {number} | {phases} of {number} | {wrong} of {number} | {error} |"
    )

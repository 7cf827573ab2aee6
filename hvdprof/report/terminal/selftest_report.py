"""A self-test in a terminal and as one JSON object."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import IO

from rich.console import Console
from rich.text import Text

from hvdprof import units
from hvdprof.model.results.selftest import (
    RIGHT,
    SELFTEST_SCHEMA_VERSION,
    CaseResult,
    MarkAgreement,
    RecorderCost,
    Selftest,
)
from hvdprof.report.json_values import JsonObject, json_value, write_json
from hvdprof.report.plain_console import report_console
from hvdprof.report.terminal.hanging_text import print_hanging
from hvdprof.report.terminal.whole_table import plain_frame, print_whole

HEAD = ("injected", "result", "named", "cost error", "clock error", "clock bound")
MARKS_HEAD = ("length", "CUDA events", "torch.profiler", "difference", "result")
BUSY_CORES = 0.3
_UNKNOWN = "-"


def render_selftest(selftest: Selftest, stream: IO[str], *, width: int | None = None) -> None:
    """Write the verdict in line 1, then a row per launch, the recorder, and a GPU's marks."""
    console = report_console(stream, width)
    console.print(Text(verdict(selftest), style="bold"), soft_wrap=True)
    where = selftest.hosts or "this host"
    ranks = f"{selftest.num_ranks} ranks on {where}, {selftest.device}, {selftest.controller}"
    print_hanging(console, "", f"{ranks}; {units.duration(selftest.duration_s)}", style="dim")
    console.print()
    frame = plain_frame(*HEAD)
    for case in selftest.cases:
        name, result, *numbers = case_texts(case)
        style = "green" if case.outcome in RIGHT else "bold red"
        frame.add_row(name, Text(result, style=style), *numbers)
    print_whole(console, frame)
    for failed in selftest.unknown:
        print_hanging(console, "  ! ", f"{failed.case.name}: {failed.reason}")
    if selftest.wrong and (text := busy_text(selftest.cases)):
        print_hanging(console, "  ! ", text)
    console.print()
    if selftest.recorder is not None:
        print_hanging(console, "", recorder_text(selftest.recorder))
    if selftest.marks:
        _print_marks(console, selftest.marks)
    for text in selftest.not_measured:
        print_hanging(console, "  ! ", f"Not measured: {text}")


def render_selftest_json(selftest: Selftest, stream: IO[str]) -> None:
    """Write one indented object and a newline; docs/howto/selftest.md lists its keys."""
    content: JsonObject = {
        "schema_version": SELFTEST_SCHEMA_VERSION,
        "passed": selftest.is_passed,
        "complete": not selftest.unknown,
    }
    content |= {name: json_value(value) for name, value in asdict(selftest).items()}
    write_json(content, stream)


def verdict(selftest: Selftest) -> str:
    """One sentence: how many launches are judged correctly."""
    known = len(selftest.cases) - len(selftest.unknown)
    right = known - len(selftest.wrong)
    sentence = f"{right} of {known} launches are judged correctly"
    if selftest.unknown:
        sentence += f"; {units.counted(len(selftest.unknown), 'launch')} without a result"
    if any(not mark.agrees for mark in selftest.marks):
        sentence += "; CUDA events disagree with torch.profiler"
    return f"{sentence}."


def case_texts(result: CaseResult) -> tuple[str, ...]:
    """The cells of a launch, as ``HEAD`` names them."""
    named = ", ".join(f"rank {rank.rank} in {rank.phase}" for rank in result.named)
    error, clocks = result.cost_error, result.clocks
    return (
        result.case.name,
        str(result.outcome) + (" (2nd try)" if result.attempts > 1 else ""),
        named or _UNKNOWN,
        _UNKNOWN if error is None else f"{100 * error:+z.0f} %",
        _UNKNOWN if clocks is None else _nanoseconds(clocks.largest_error_ns),
        _UNKNOWN if clocks is None else _nanoseconds(clocks.largest_bound_ns),
    )


def busy_text(results: Sequence[CaseResult]) -> str:
    """What other processes did meanwhile; empty where they kept hardly a core busy."""
    busiest = max((result.other_cores or 0.0 for result in results), default=0.0)
    if busiest < BUSY_CORES:
        return ""
    return (
        f"Other processes kept up to {busiest:.1f} cores busy meanwhile. End them, then run the "
        "self-test again."
    )


def recorder_text(cost: RecorderCost) -> str:
    """What the recorder costs, one sentence."""
    ratio = f"{100 * (cost.cpu_ratio - 1):+z.1f} %"
    ends = f"{100 * (cost.cpu_ratio_low - 1):+z.1f} to {100 * (cost.cpu_ratio_high - 1):+z.1f} %"
    return (
        f"Recorder: {cost.direct_ns / 1e3:.0f} µs per step of {cost.model}, "
        f"{units.percent(cost.direct_ns / cost.step_ns, 2)} of "
        f"{units.milliseconds(cost.step_ns)}; processor time {ratio} (95 % CI {ends})."
    )


def _print_marks(console: Console, marks: tuple[MarkAgreement, ...]) -> None:
    console.print()
    frame = plain_frame(*MARKS_HEAD)
    for mark in marks:
        frame.add_row(
            mark.name,
            units.milliseconds(mark.event_ns),
            units.milliseconds(mark.profiler_ns),
            units.milliseconds(mark.error_ns),
            Text("agrees", style="green") if mark.agrees else Text("disagrees", style="bold red"),
        )
    print_whole(console, frame)


def _nanoseconds(value: float | None) -> str:
    if value is None:
        return _UNKNOWN
    # Ranks of one host read one clock: nothing is exchanged.
    return f"{value / 1e3:.1f} µs" if value else "0"

"""What the tests of a machine answer, of its network and of hvdprof on it: a page, and JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

import pandas as pd

from hvdprof import units
from hvdprof.model.cause_names import within
from hvdprof.model.cell_key import ENGINE_TITLES, HOROVOD_ENGINE
from hvdprof.model.notes import texts
from hvdprof.model.results.selftest import (
    RIGHT,
    SELFTEST_SCHEMA_VERSION,
    CaseResult,
    MarkAgreement,
    RecorderCost,
    Selftest,
)
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.finding_tables import NETWORK_RULES
from hvdprof.model.tables.sample_tables import NET_LINKS
from hvdprof.report.answer import Answer
from hvdprof.report.json_values import JsonObject, json_rows, json_value
from hvdprof.report.sections.network import LINK_HEADS, link_cells
from hvdprof.report.sections.section import Head, Page, Section, Tone

_HEADS = (
    Head("injected", is_text=True),
    Head("result", is_outcome=True),
    *map(Head, ("named", "cost error", "clock error", "clock bound")),
)
_LIVE_HEADS = (*_HEADS[:2], *map(Head, ("named", "named after", "cleared after", "false names")))
_MARK_HEADS = (
    Head("length", is_text=True),
    *map(Head, ("CUDA events", "torch.profiler", "difference")),
    Head("result", is_outcome=True),
)
BUSY_CORES = 0.3
_UNKNOWN = "-"

NET_SCHEMA_VERSION = 2
_NOTHING = "No network measurement here. Run `hvdprof net --hosts h1,h2`."


def selftest_answer(selftest: Selftest) -> Answer:
    """The verdict in line 1, then a row per launch, the recorder, and a GPU's marks."""
    return Answer(partial(_page, selftest), partial(_object, selftest))


def _page(selftest: Selftest) -> Page:
    where = selftest.hosts or "this host"
    is_horovod = selftest.engine == HOROVOD_ENGINE
    engine = f"Horovod ({selftest.controller})" if is_horovod else ENGINE_TITLES[selftest.engine]
    ranks = f"{selftest.num_ranks} ranks on {where}, {selftest.device}, {engine}"
    launches = Section(
        caption=f"{ranks}; {units.duration(selftest.duration_s)}",
        heads=_LIVE_HEADS if any(case.live for case in selftest.cases) else _HEADS,
        rows=tuple(case_texts(case) for case in selftest.cases),
        tones=tuple(_tone(is_good=case.outcome in RIGHT) for case in selftest.cases),
        verdict=verdict(selftest),
    )
    busy = busy_text(selftest.cases) if selftest.wrong else ""
    return Page(
        (launches, *_recorder(selftest.recorder), *_marks(selftest.marks)),
        notes=(
            *(f"{failed.case.name}: {failed.reason}" for failed in selftest.unknown),
            *([busy] if busy else []),
            *(f"Not measured: {text}" for text in selftest.not_measured),
        ),
    )


def _recorder(cost: RecorderCost | None) -> tuple[Section, ...]:
    return () if cost is None else (Section("Recorder", sentences=(recorder_text(cost),)),)


def _marks(marks: Sequence[MarkAgreement]) -> tuple[Section, ...]:
    rows = tuple(
        (
            mark.name,
            units.milliseconds(mark.event_ns),
            units.milliseconds(mark.profiler_ns),
            units.milliseconds(mark.error_ns),
            "agrees" if mark.agrees else "disagrees",
        )
        for mark in marks
    )
    tones = tuple(_tone(is_good=mark.agrees) for mark in marks)
    return (Section("Marks of the GPU", heads=_MARK_HEADS, rows=rows, tones=tones),) if rows else ()


def _tone(*, is_good: bool) -> Tone:
    return "good" if is_good else "bad"


def _object(selftest: Selftest) -> JsonObject:
    """The keys are listed in docs/howto/selftest.md."""
    content: JsonObject = {
        "schema_version": SELFTEST_SCHEMA_VERSION,
        "passed": selftest.is_passed,
        "complete": not selftest.unknown,
    }
    return content | {name: json_value(value) for name, value in asdict(selftest).items()}


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
    """The cells of a launch, as its heads name them."""
    named = ", ".join(f"rank {rank.rank}{within(rank.phase)}" for rank in result.named)
    error, clocks, live = result.cost_error, result.clocks, result.live
    first = (
        result.case.name,
        str(result.outcome) + (" (2nd try)" if result.attempts > 1 else ""),
        named or _UNKNOWN,
    )
    if live is not None:
        times = (live.named_after_s, live.cleared_after_s)
        texts = (_UNKNOWN if time_s is None else units.duration(time_s) for time_s in times)
        return (*first, *texts, str(live.num_false))
    return (
        *first,
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
        f"{cost.direct_ns / 1e3:.0f} µs per step of {cost.model}, "
        f"{units.percent(cost.direct_ns / cost.step_ns, 2)} of "
        f"{units.milliseconds(cost.step_ns)}; processor time {ratio} (95 % CI {ends})."
    )


def _nanoseconds(value: float | None) -> str:
    if value is None:
        return _UNKNOWN
    # Ranks of one host read one clock: nothing is exchanged.
    return f"{value / 1e3:.1f} µs" if value else "0"


def net_answer(analysis: RunAnalysis) -> Answer:
    """A row for every pair of hosts and method, findings on links, and what was not measured.

    Args:
        analysis: Of a run whose network was measured, alone or before something else.
    """
    return Answer(partial(_net_page, analysis), partial(_net_object, analysis))


def _net_page(analysis: RunAnalysis) -> Page:
    links = analysis.table(NET_LINKS.name)
    rows = tuple(link_cells(row) for row in links.to_dict("records"))
    section = (
        Section(verdict=_NOTHING)
        if links.empty
        else Section(heads=LINK_HEADS, rows=rows, note=_explained(links))
    )
    return Page((section,), _findings(analysis), tuple(texts(analysis.run.notes)))


def _net_object(analysis: RunAnalysis) -> JsonObject:
    """Rows of NET_LINKS, findings on them, notes."""
    return {
        "schema_version": NET_SCHEMA_VERSION,
        "net_links": json_rows(analysis.table(NET_LINKS.name)),
        "findings": json_rows(_findings(analysis)),
        "notes": json_value(texts(analysis.run.notes)),
    }


def _findings(analysis: RunAnalysis) -> pd.DataFrame:
    return analysis.findings[analysis.findings["id"].isin(NETWORK_RULES)]


def _explained(links: pd.DataFrame) -> str:
    smallest = units.byte_size(int(links["smallest_bytes"].min()))
    largest = units.byte_size(int(links["largest_bytes"].max()))
    return (
        f"latency: median of {smallest}; bandwidth: slope of time over sizes up to {largest}; 95 % "
        "intervals. TCP and Horovod: one way, half of the time there and back; allreduce: its "
        "whole time."
    )

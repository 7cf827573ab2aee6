"""DDP against Horovod in a terminal: which is faster on the same ranks, and by what."""

import math
from dataclasses import dataclass

import pandas as pd
from rich.console import Console
from rich.text import Text

from hvdprof import units
from hvdprof.model.cause_names import cause_name
from hvdprof.model.cell_key import ENGINE_TITLES, of_base_cell
from hvdprof.model.run import RunAnalysis
from hvdprof.report.terminal.hanging_text import print_hanging
from hvdprof.rundir.plan import DDP_ENGINE, HOROVOD_ENGINE

_JUDGED = {"pays": "DDP is faster", "costs": "Horovod is faster", "no effect": "no difference"}
_SHOWN = (HOROVOD_ENGINE, DDP_ENGINE)


@dataclass(frozen=True, slots=True)
class EngineComparison:
    """A model on a number of ranks under both engines: who is faster, and what differs by cause."""

    sentence: str
    causes: tuple[str, ...]


def shape_engines(analysis: RunAnalysis) -> tuple[EngineComparison, ...]:
    """A comparison for every cell that was measured under both on several ranks."""
    toggles = analysis.table("toggles")
    rows = toggles[(toggles["toggle"] == DDP_ENGINE) & (toggles["np"] > 1)]
    return tuple(
        EngineComparison(
            _sentence(analysis, row), _causes(analysis, str(row["model"]), int(row["np"]))
        )
        for _, row in rows.iterrows()
    )


def print_engines(console: Console, comparisons: tuple[EngineComparison, ...]) -> None:
    """Print the comparisons; nothing where there are none."""
    if not comparisons:
        return
    console.print(Text("\nDDP against Horovod", style="bold"))
    for comparison in comparisons:
        print_hanging(console, "  ", comparison.sentence)
        for cause in comparison.causes:
            print_hanging(console, "    ", cause, style="dim")


def _sentence(analysis: RunAnalysis, row: pd.Series) -> str:
    model, np_ = str(row["model"]), int(row["np"])
    ratio = units.interval_of_unit(row["speedup"], row["speedup_low"], row["speedup_high"], "ratio")
    sentence = (
        f"{model} on {np_} ranks: {_judgement(row)}; the throughput of DDP is {ratio} of Horovod's."
    )
    if reached := _efficiencies(analysis, model, np_):
        sentence += f" Scaling efficiency: {reached}."
    return sentence


def _judgement(row: pd.Series) -> str:
    judged = _JUDGED.get(str(row["verdict"]))
    if judged is not None:
        return judged
    is_undecided = row["speedup_low"] <= 1 <= row["speedup_high"]
    return f"{'undecided' if is_undecided else 'not comparable'} ({row['reason']})"


def _efficiencies(analysis: RunAnalysis, model: str, np_: int) -> str:
    """Both efficiencies; empty where one of the two is the baseline itself."""
    reached = []
    for engine in _SHOWN:
        cell = of_base_cell(analysis.scaling, model, np_, engine).iloc[0]
        if math.isnan(cell["efficiency_low"]):
            return ""
        efficiency = units.percent_interval(
            cell["efficiency"], cell["efficiency_low"], cell["efficiency_high"]
        )
        reached.append(f"{ENGINE_TITLES[engine]} {efficiency}")
    return ", ".join(reached)


def _causes(analysis: RunAnalysis, model: str, np_: int) -> tuple[str, ...]:
    """What DDP takes longer by cause (negative: less), beyond chance, the largest first."""
    differences = analysis.table("engine_diffs")
    differences = differences[(differences["model"] == model) & (differences["np"] == np_)]
    found = differences[differences["significant"]].to_dict("records")
    if differences["low_ns"].isna().all():
        return ()
    if not found:
        return ("no significant difference by cause",)
    order = sorted(found, key=lambda row: -abs(row["difference_ns"]))
    return tuple(
        f"{cause_name(row)}: "
        + units.interval_of_unit(row["difference_ns"], row["low_ns"], row["high_ns"], "ns")
        + " per step, DDP minus Horovod"
        for row in order
    )

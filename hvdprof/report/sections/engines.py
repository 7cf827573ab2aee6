"""DDP against Horovod: which is faster on the same ranks, and by what."""

import math

import pandas as pd

from hvdprof import units
from hvdprof.model.cause_names import cause_name
from hvdprof.model.cell_key import ENGINE_TITLES, of_base_cell, place_name
from hvdprof.model.run import RunAnalysis
from hvdprof.report.sections.section import Section
from hvdprof.rundir.plan import DDP_ENGINE, HOROVOD_ENGINE

_JUDGED = {"pays": "DDP is faster", "costs": "Horovod is faster", "no effect": "no difference"}
_SHOWN = (HOROVOD_ENGINE, DDP_ENGINE)


def engine_sections(analysis: RunAnalysis) -> tuple[Section, ...]:
    """A section for every cell that was measured under both engines on several ranks."""
    toggles = analysis.table("toggles")
    rows = toggles[(toggles["toggle"] == DDP_ENGINE) & (toggles["np"] > 1)]
    return tuple(
        Section(
            "DDP against Horovod",
            place_name(row["model"], int(row["np"]), ""),
            sentences=(
                _sentence(analysis, row),
                *_causes(analysis, str(row["model"]), int(row["np"])),
            ),
        )
        for _, row in rows.iterrows()
    )


def _sentence(analysis: RunAnalysis, row: pd.Series) -> str:
    model, np_ = str(row["model"]), int(row["np"])
    ratio = units.interval_of_unit(row["speedup"], row["speedup_low"], row["speedup_high"], "ratio")
    judgement = _judgement(row)
    sentence = (
        f"{judgement[0].upper()}{judgement[1:]}; the throughput of DDP is {ratio} of Horovod's."
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

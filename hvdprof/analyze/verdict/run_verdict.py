"""The verdict of a run: the efficiency of its worst cell, the largest loss and its fix."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from hvdprof import units
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.verdict.largest_loss import largest_loss, offset
from hvdprof.model.cell_key import (
    of_base_cell,
    place_name,
    setting_of_row,
    with_engine,
    without_toggles,
)
from hvdprof.model.run import FailedSegment, Verdict
from hvdprof.rundir.manifest import Manifest, Mode, Status
from hvdprof.rundir.plan import HOROVOD_ENGINE, TORCH_ENGINE

SMALLEST_NAMED_SHARE = 0.05
"""A part that costs fewer points of efficiency is not named."""

_ONE_SIZE_ALONE = "One number of ranks alone"
_TOGGLES_ALONE = "Cells with toggles alone"
_ONE_LAUNCH = "One launch per cell: differences between launches are unknown."


def verdict(
    scaling: pd.DataFrame,
    losses: pd.DataFrame,
    findings: pd.DataFrame,
    failed: Sequence[FailedSegment],
    manifest: Manifest,
) -> Verdict:
    """The verdict of a run: at most two sentences, and a caveat.

    1.  Only cells without toggles count, and those of DDP only where Horovod has none. Of each
        model the largest number of ranks is taken that is not oversubscribed and not the baseline;
        of these the one with the lowest efficiency.
    2.  A loss is named where the interval of the efficiency lies below 1 and the part of LOSSES
        that costs most costs at least 5 points: the costliest cause that FINDINGS name with its
        fix, otherwise that part.
    3.  Where nothing can be said, the sentence says why.
    """
    base = scaling[without_toggles(scaling) & with_engine(scaling)]
    # DDP is what Horovod is compared with; alone it is what the run is about.
    if (base["engine"] == HOROVOD_ENGINE).any():
        base = base[base["engine"] == HOROVOD_ENGINE]
    scaled = base[base["baseline"] != base["engine"] + " np=" + base["np"].astype(str)]
    many = scaled[scaled["np"] > 1]
    valid = many[~many["oversubscribed"]]
    if not valid.empty:
        return _scaling_verdict(_worst(valid), losses, findings)
    if not many.empty:
        return _oversubscribed_verdict(_worst(many))
    if not base.empty:
        return _one_size_verdict(base, _ONE_SIZE_ALONE)
    if not scaling.empty:
        plain = without_toggles(scaling).all()
        return _one_size_verdict(scaling, _ONE_SIZE_ALONE if plain else _TOGGLES_ALONE)
    return _empty_verdict(failed, manifest)


def _worst(cells: pd.DataFrame) -> pd.Series:
    largest = cells[cells["np"] == cells.groupby("model", sort=False)["np"].transform("max")]
    return largest.sort_values("efficiency", kind="stable").iloc[0]


def _scaling_verdict(cell: pd.Series, losses: pd.DataFrame, findings: pd.DataFrame) -> Verdict:
    parts = of_base_cell(losses, cell["model"], cell["np"], cell["engine"])
    largest = parts.iloc[int(parts["lost_share"].argmax())] if len(parts) else None
    number = f"{_place(cell)}: {_efficiency(cell)} scaling efficiency against {cell['baseline']}."
    if cell["efficiency_low"] > 1:
        return _verdict(f"{number} No loss: the whole 95 % CI is above 100 %.", cell, "", NAN)
    if cell["efficiency_high"] >= 1:
        return _verdict(f"{number} The 95 % CI includes 100 %: no certain loss.", cell, "", NAN)
    if largest is None or largest["lost_share"] < SMALLEST_NAMED_SHARE:
        return _verdict(f"{number} No single loss stands out.", cell, "", NAN)
    if not cell["efficiency_high"] < 1:
        return _verdict(f"{number} No loss is named, because the CI is unknown.", cell, "", NAN)
    numbers = _verdict(number, cell, str(largest["part"]), float(largest["lost_share"]))
    return replace(
        numbers,
        sentence=f"{number} {largest_loss(numbers, findings)}",
        caveat=" ".join(text for text in (offset(numbers), numbers.caveat) if text),
    )


def _oversubscribed_verdict(cell: pd.Series) -> Verdict:
    sentence = (
        f"{_place(cell)}: {_efficiency(cell)} of the throughput per rank of {cell['baseline']}. "
        "The ranks shared cores or GPUs (oversubscribed), so this says nothing about scaling."
    )
    return _verdict(sentence, cell, "", NAN)


def _one_size_verdict(cells: pd.DataFrame, why: str) -> Verdict:
    cell = cells.iloc[-1]
    speed = units.rate_interval(
        cell["samples_per_s"], cell["samples_per_s_low"], cell["samples_per_s_high"]
    )
    toggled = "" if why == _ONE_SIZE_ALONE else f" ({setting_of_row(cell)})"
    sentence = f"{_place(cell)}{toggled}: {speed} samples/s"
    if cell["engine"] != TORCH_ENGINE and cell["baseline"].startswith(TORCH_ENGINE):
        sentence += f", {_efficiency(cell)} of {cell['baseline']}"
    sentence += f". {why}: no scaling to judge."
    return _verdict(sentence, cell, "", NAN)


def _empty_verdict(failed: Sequence[FailedSegment], manifest: Manifest) -> Verdict:
    num_planned = sum(len(one.segments) for one in manifest.passes)
    what = "No throughput" if _has_finished(manifest) else "Nothing"
    if failed:
        first = failed[0]
        sentence = (
            f"{what} was measured: {len(failed)} of {num_planned} planned measurements failed. "
            f"First failure, {first.model} at np={first.np}: {first.reason.rstrip('.')}."
        )
    elif manifest.status in (Status.PLANNED, Status.RUNNING):
        sentence = f"Nothing is measured yet: the run is {manifest.status}."
    elif not num_planned:
        sentence = "Nothing was measured: every configuration was skipped."
    else:
        of_it = " of it" if _has_finished(manifest) else ""
        sentence = f"{what} was measured: no measurement{of_it} was finished and recorded."
    return Verdict(sentence, "", 0, NAN, NAN, NAN, "", NAN)


def _has_finished(manifest: Manifest) -> bool:
    """Whether a pass with the timeline on came to its end: there is something to look at."""
    return any(
        one.mode != Mode.THROUGHPUT and record.status == Status.DONE
        for one in manifest.passes
        for record in one.segments
    )


def _place(cell: pd.Series) -> str:
    return place_name(cell["model"], cell["np"], cell["engine"])


def _efficiency(cell: pd.Series) -> str:
    return units.percent_interval(
        cell["efficiency"], cell["efficiency_low"], cell["efficiency_high"]
    )


def _verdict(sentence: str, cell: pd.Series, part: str, share: float) -> Verdict:
    return Verdict(
        sentence=sentence,
        model=str(cell["model"]),
        np=int(cell["np"]),
        efficiency=float(cell["efficiency"]),
        efficiency_low=float(cell["efficiency_low"]),
        efficiency_high=float(cell["efficiency_high"]),
        biggest_loss=part,
        biggest_loss_share=share,
        engine=str(cell["engine"]),
        caveat=_ONE_LAUNCH if cell["num_launches"] == 1 else "",
    )

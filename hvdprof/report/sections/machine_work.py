"""What the GPUs of a launch made of their time and energy: FLOP/s, MFU, J per sample, kWh per day.

Tested in ``tests/report/sections/test_machine_work.py``.
"""

from collections.abc import Iterator

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import of_base_cell
from hvdprof.model.launch_key import LAUNCH
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.sample_tables import DEVICE_SAMPLES
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.rundir.recording.sample_format import ENERGY, FLOP, FLOP_RATE, MFU

_LEAST_SHARE = 0.01
"""Precisions with a smaller share of the FLOPs are not named."""


def work_sentences(analysis: RunAnalysis, own: pd.DataFrame) -> Iterator[str]:
    """Sentences on the FLOPs and the energy of a launch; none where neither is known.

    Args:
        analysis: The finished analysis.
        own: The rows of RANK_MACHINE of the launch, with texts as keys.
    """
    yield from _flops(analysis, own)
    yield from _energy(analysis, own)


def _flops(analysis: RunAnalysis, own: pd.DataFrame) -> Iterator[str]:
    rates = own[(own["measure"] == FLOP_RATE).to_numpy()]
    if rates.empty:
        return
    rate = units.flops(*(float(rates[name].mean()) for name in ("mean", "low", "high")), per="/s")
    per_step = own[own["measure"].isin(FLOP.values())].groupby("measure")["mean"].mean()
    whole = float(per_step.sum())
    shares = {name: float(per_step.get(key, 0.0)) / whole for name, key in FLOP.items()}
    named = [
        f"{name} {units.percent(share, 0)}" if share < 1 else name
        for name, share in shares.items()
        if share >= _LEAST_SHARE
    ]
    yield (
        f"{rate} per rank (mean), in {', '.join(named)}: {units.flops(whole)} per step, counted in "
        "one warm-up step."
    )
    known = own[(own["measure"] == MFU).to_numpy()]
    if known["mean"].notna().any():
        shown = known[known["mean"].notna()]
        ends = (float(shown[name].mean()) for name in ("mean", "low", "high"))
        yield f"MFU {units.percent_interval(*ends)} of the dense peak (docs/howto/machine.md)."
    if known["mean"].isna().any():
        pass_id = str(own["pass_id"].iloc[0])
        samples = analysis.run.table(DEVICE_SAMPLES.name)
        missing = known.loc[known["mean"].isna(), "rank"]
        rows = samples[(samples["pass_id"].astype(str) == pass_id) & samples["rank"].isin(missing)]
        names = ", ".join(sorted({*rows["device"].astype(str)} - {""}))
        yield f"No MFU: no dense peak of {names} is known in {', '.join(_names(shares))}."


def _names(shares: dict[str, float]) -> list[str]:
    return [name for name, share in shares.items() if share]


def _energy(analysis: RunAnalysis, own: pd.DataFrame) -> Iterator[str]:
    drawn = own[(own["measure"] == ENERGY).to_numpy()]
    key = tuple(str(own[name].iloc[0]) for name in LAUNCH)
    launch = _row_of(analysis.launches, key)
    segment = _row_of(analysis.run.segments, key)
    if drawn.empty or launch is None or segment is None:
        return
    ranks = analysis.run.ranks.astype({"pass_id": str, "hostname": str, "gpu": str})
    gpus = ranks[(ranks["pass_id"] == key[0]).to_numpy()].set_index("rank")[["hostname", "gpu"]]
    each = drawn.set_index("rank").join(gpus)
    if drawn["rank"].nunique() < int(segment["size"]) or not each["gpu"].astype(bool).all():
        # Of some ranks the energy is not known, or ranks may share a GPU.
        return
    watts = float(each.groupby(["hostname", "gpu"])["mean"].mean().sum())
    per_step = watts * float(launch["step_time_ns"]) / 1e9
    samples = int(segment["batch_size"]) * int(segment["size"])
    each_sample = f"{units.rate(per_step / samples)} J per sample, " if samples > 0 else ""
    day_kwh = watts * 24 / 1000
    loss = _loss(analysis, segment, day_kwh)
    yield (
        f"The GPUs draw {units.rate(watts)} W by their energy counters: {each_sample}"
        f"{units.rate(per_step)} J per step, {units.rate(day_kwh)} kWh per day{loss}."
    )


def _row_of(table: pd.DataFrame, key: tuple[str, ...]) -> FrameRow | None:
    rows = table.astype(dict.fromkeys(LAUNCH, str)).to_dict("records")
    return next((row for row in rows if tuple(row[name] for name in LAUNCH) == key), None)


def _loss(analysis: RunAnalysis, segment: FrameRow, day_kwh: float) -> str:
    """What the largest loss of the verdict takes of a day; empty where this is another cell."""
    verdict = analysis.verdict
    cell = (str(segment["model"]), int(segment["size"]), str(segment["engine"]))
    if not verdict.parts.cause_id or (verdict.model, verdict.np, verdict.engine) != cell:
        return ""
    rows = of_base_cell(analysis.table(WATERFALL.name), *cell)
    named = rows[(rows["cause_id"] == verdict.parts.cause_id).to_numpy(dtype=bool)]
    if named.empty:
        return ""
    ends = (day_kwh * float(named.iloc[0][name]) for name in ("share", "share_low", "share_high"))
    return f", of which the largest loss of the steps takes {units.rate_interval(*ends)}"

"""What the machine did to each rank and host, and what its GPUs made of their time and energy."""

import math
from collections.abc import Iterator

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import LAUNCH, of_base_cell, place_name
from hvdprof.model.run import RunAnalysis
from hvdprof.model.schema import as_text
from hvdprof.model.tables.run_tables import TURNS
from hvdprof.model.tables.sample_tables import DEVICE_SAMPLES, HOST_SAMPLES, RANK_MACHINE
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.report.sections.section import Head, Section
from hvdprof.rundir.recording import sample_format as names
from hvdprof.rundir.recording.sample_format import ENERGY, FLOP, FLOP_RATE, MFU

MOST_RANKS = 8
_COLUMNS: dict[str, tuple[str, ...]] = {
    "cores\nused": (names.CPU,),
    "no core,\nof time ready": (names.CORE_WAIT,),
    "CPU limit\nreached": (names.THROTTLED,),
    "rss": (names.RSS,),
    "SM clock": (names.SM_CLOCK,),
    "GPU\nutilisation": (names.UTILISATION,),
    "GPU memory\nreserved": (names.TORCH_RESERVED,),
    "XID": (names.XID,),
    "from batch\nto GPU": (names.COPY_GPU,),
    "FLOP/s": (names.FLOP_RATE,),
    "MFU": (names.MFU,),
}
"""Heads with the measures of RANK_MACHINE below them; without samples of one there is no column."""

_RARE = (names.THROTTLED, names.XID)
"""Measures without a column where they are 0 on all ranks."""

_LEAST_SHARE = 0.01
"""Precisions with a smaller share of the FLOPs are not named."""


def machine_sections(analysis: RunAnalysis) -> tuple[Section, ...]:
    """The launch with most ranks, its ranks that differ most first; none without samples.

    It is one of the cell that the verdict is about, where that has samples.
    """
    rows = as_text(analysis.table(RANK_MACHINE.name), [*LAUNCH, "measure"])
    if rows.empty:
        return ()
    verdict = analysis.verdict
    cell = of_base_cell(analysis.run.segments, verdict.model, verdict.np, verdict.engine)
    of_verdict = rows.merge(as_text(cell[LAUNCH], LAUNCH))
    shown_of = rows if of_verdict.empty else of_verdict
    launches = [own for _, own in shown_of.groupby(LAUNCH, sort=False)]
    own = max(launches, key=lambda rows: rows["rank"].nunique())
    pass_id = str(own["pass_id"].iloc[0])
    table = own.pivot_table(index="rank", columns="measure", values="mean")
    waits = table.get(names.CORE_WAIT, pd.Series(0.0, table.index))
    ranks = sorted(waits.sort_values(ascending=False, kind="stable").index[:MOST_RANKS])
    shown = {
        head: measure
        for head, measures in _COLUMNS.items()
        for measure in measures
        if measure in table and (measure not in _RARE or table[measure].any())
    }
    sentences = [*(_limits(own, rank) for rank in ranks), *_hosts(analysis, pass_id)]
    sentences += work_sentences(analysis, own)
    if left_out := len(table) - len(ranks):
        sentences.append(f"{units.counted(left_out, 'rank')} with a core more often not shown.")
    return (
        Section(
            "What the machine did to each rank",
            caption=_caption(analysis, own),
            heads=(Head("rank"), *(Head(head) for head in shown)),
            rows=tuple(
                (
                    str(rank),
                    *(_shown(measure, table.loc[rank, measure]) for measure in shown.values()),
                )
                for rank in ranks
            ),
            sentences=tuple(filter(None, sentences)),
            note="No core: the main thread could run, and others had its cores. What explains a "
            "straggler is in its finding (docs/howto/machine.md).",
        ),
    )


def _caption(analysis: RunAnalysis, own: pd.DataFrame) -> str:
    pass_id, segment = (str(own[name].iloc[0]) for name in LAUNCH)
    row = _row_of(analysis.run.segments, (pass_id, segment))
    place = (
        f"{place_name(str(row['model']), int(row['size']), str(row['engine']))}: " if row else ""
    )
    if pass_id in set(analysis.run.table(TURNS.name)["pass_id"].astype(str)):
        return (
            f"{place}means from the first to the last steady step of {pass_id}, sampled once a "
            "second; seconds mostly in turns of other launches, in which its ranks sleep, are left "
            "out"
        )
    return f"{place}means over the steady steps of {pass_id}, sampled once a second"


def _shown(measure: str, value: float) -> str:
    if math.isnan(value):
        return units.MISSING
    match names.MEASURES[measure].unit:
        case "":
            return units.percent(value, 0)
        case "bytes":
            return units.byte_size(value)
        case "Hz":
            return f"{value / 1e6:.0f} MHz"
        case "FLOP/s":
            return units.flops(value, per="/s")
        case "number":
            return f"{value:.0f}"
    return f"{value:.2g}"


def _limits(rows: pd.DataFrame, rank: int) -> str:
    """By what the clock of a rank's GPU was limited; empty where by nothing."""
    own = rows[(rows["rank"] == rank).to_numpy()]
    means = dict(zip(own["measure"], own["mean"], strict=True))
    parts = [
        f"{names.MEASURES[name].title} {units.percent(means[name], 0)} of the time"
        for name in names.LIMITS
        if names.MEASURES[name].title and means.get(name, 0.0) >= 0.01
    ]
    if means.get(names.REMOTE, 0.0) >= 0.5:
        parts.append(names.MEASURES[names.REMOTE].title)
    return f"Rank {rank}: {', '.join(parts)}." if parts else ""


def _hosts(analysis: RunAnalysis, pass_id: str) -> list[str]:
    """A sentence on each host of a pass."""
    samples = as_text(analysis.run.table(HOST_SAMPLES.name), ["pass_id", "measure"])
    ranks = as_text(analysis.run.ranks, ["pass_id", "hostname"])
    hosts = ranks[(ranks["pass_id"] == pass_id).to_numpy()].set_index("rank")["hostname"]
    own = samples[(samples["pass_id"] == pass_id).to_numpy()]
    sentences: list[str] = []
    for rank, of_host in own.groupby("rank"):
        means = of_host.groupby("measure")["mean"].mean()
        facts = [
            (names.BUSY, "{:.1f} cores busy", 0.0),
            (names.STEAL, "{:.2f} cores taken by the hypervisor", 0.05),
        ]
        texts = [
            text.format(means[name])
            for name, text, least in facts
            if means.get(name, -1.0) >= least
        ]
        texts += [
            f"{names.MEASURES[name].title} {units.percent(means[name], 0)}"
            for name in ("psi_cpu", "psi_memory", "psi_io")
            if means.get(name, 0.0) >= 0.05
        ]
        texts += [
            f"{names.MEASURES[name].title} {units.byte_size(means[name])}/s"
            for name in (names.SWAP_IN, names.SWAP_OUT)
            if means.get(name, 0.0) > 0
        ]
        if texts and len(sentences) < MOST_RANKS:
            sentences.append(f"{hosts.get(rank, f'Host of rank {rank}')}: {', '.join(texts)}.")
    return sentences


def work_sentences(analysis: RunAnalysis, own: pd.DataFrame) -> Iterator[str]:
    """Sentences on the FLOPs and the energy of a launch; none where neither is known."""
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
    places = zip(*(table[name].tolist() for name in LAUNCH), strict=True)
    own = next((place for place, launch in enumerate(places) if launch == key), None)
    return None if own is None else table.iloc[[own]].to_dict("records")[0]


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

"""What the machine did to each rank: cores, memory, GPU; and to their hosts."""

import math

import pandas as pd

from hvdprof import units
from hvdprof.model.launch_key import LAUNCH
from hvdprof.model.run import RunAnalysis
from hvdprof.model.schema import as_text
from hvdprof.model.tables.run_tables import TURNS
from hvdprof.model.tables.sample_tables import HOST_SAMPLES, RANK_MACHINE
from hvdprof.report.sections.machine_work import work_sentences
from hvdprof.report.sections.section import Head, Section
from hvdprof.rundir.recording import sample_format as names

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


def machine_sections(analysis: RunAnalysis) -> tuple[Section, ...]:
    """The launch with most ranks, its ranks that differ most first; none without samples."""
    rows = as_text(analysis.table(RANK_MACHINE.name), [*LAUNCH, "measure"])
    if rows.empty:
        return ()
    launches = [own for _, own in rows.groupby(LAUNCH, sort=False)]
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
            caption=_caption(analysis, pass_id),
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


def _caption(analysis: RunAnalysis, pass_id: str) -> str:
    if pass_id in set(analysis.run.table(TURNS.name)["pass_id"].astype(str)):
        return (
            f"means from the first to the last steady step of {pass_id}, sampled once a second; "
            "the turns of other launches between them, in which its ranks sleep, are included"
        )
    return f"means over the steady steps of {pass_id}, sampled once a second"


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

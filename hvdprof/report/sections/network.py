"""What the network gives, how far the job uses it, and which engine is faster on it."""

import math

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cause_names import cause_name
from hvdprof.model.cell_key import ENGINE_TITLES, of_base_cell, place_name
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.rank_collective_tables import COLLECTIVE_BANDWIDTHS
from hvdprof.model.tables.sample_tables import NET_LINKS, NET_USE
from hvdprof.report.sections.section import Head, Section
from hvdprof.rundir.plan import DDP_ENGINE, HOROVOD_ENGINE

LINK_HEADS = (
    Head("over", is_text=True),
    Head("between", is_text=True),
    Head("latency, ms"),
    Head("bandwidth, MB/s"),
    Head("alpha, ms", is_detail=True),
    Head("beta, ms/MB", is_detail=True),
)
_ENDS = ("", "_low", "_high")
_OVER = {"tcp": "TCP", "broadcast": "Horovod", "allreduce": "allreduce"}
_MOST_PAIRS = 3
_CAPTION = "before the run, one rank on every host; TCP and Horovod one way, allreduce as a whole"

_HEADS = (
    Head("collective", is_text=True),
    *map(Head, ("ranks", "payload", "calls", "median transfer", "median busbw")),
)
_MOST_ROWS = 8
_BANDWIDTH_CAPTION = "from the last arrival to the end; busbw as nccl-tests defines it"

_JUDGED = {"pays": "DDP is faster", "costs": "Horovod is faster", "no effect": "no difference"}
_SHOWN = (HOROVOD_ENGINE, DDP_ENGINE)


def link_cells(row: FrameRow) -> tuple[str, ...]:
    """A row of NET_LINKS below ``LINK_HEADS``, with 95 % intervals.

    Where there is no fit, the reason stands in place of the bandwidth.
    """
    is_pair = str(row["method"]) != "allreduce"
    between = f"{row['from_host']} - {row['to_host']}"
    return (
        _OVER.get(str(row["method"]), str(row["method"])),
        between if is_pair else f"all {units.count(row['np'])} hosts",
        _interval(row, "latency{}_ns", 1e-6),
        str(row["reason"]) or _interval(row, "bandwidth{}_gb_per_s", 1000),
        _interval(row, "alpha{}_ns", 1e-6),
        _interval(row, "beta{}_ns_per_mb", 1e-6),
    )


def network_sections(analysis: RunAnalysis) -> tuple[Section, ...]:
    """The links of a run and sentences on their use; none where its network was not measured.

    Of more than three pairs of a method: the slowest three, and the number of pairs.
    """
    links = analysis.table(NET_LINKS.name)
    if links.empty:
        return ()
    shown = links.sort_values("bandwidth_gb_per_s", kind="stable", na_position="first")
    rows: list[tuple[str, ...]] = []
    left_out: list[str] = []
    for method in dict.fromkeys(links["method"].astype(str)):
        of_method = shown[shown["method"] == method]
        rows += [link_cells(row) for row in of_method.head(_MOST_PAIRS).to_dict("records")]
        if len(of_method) > _MOST_PAIRS:
            left_out.append(_left_out(method, of_method))
    uses = analysis.table(NET_USE.name).to_dict("records")
    sentences = (*left_out, *(_use(row) for row in uses))
    title = "Network between the hosts"
    return (Section(title, "", _CAPTION, LINK_HEADS, tuple(rows), sentences),)


def _left_out(method: str, links: pd.DataFrame) -> str:
    speeds = 1000 * links["bandwidth_gb_per_s"].dropna()
    number = units.count(len(links))
    if speeds.empty:
        return f"{_OVER[method]}: {_MOST_PAIRS} of {number} pairs, none with a fit."
    return (
        f"{_OVER[method]}: the slowest {_MOST_PAIRS} of {number} pairs, median "
        f"{units.of_unit(float(speeds.median()), 'MB/s')}, fastest "
        f"{units.of_unit(float(speeds.max()), 'MB/s')}."
    )


def _use(row: FrameRow) -> str:
    if row["reason"]:
        return f"Share of the network that {row['np']} ranks use: unknown ({row['reason']})."
    reached, allowed = (
        units.of_unit(1000 * float(row[name]), "MB/s")
        for name in ("busbw_gb_per_s", "allowed_gb_per_s")
    )
    share = units.interval_of_unit(row["share"], row["share_low"], row["share_high"], "ratio")
    return (
        f"Large allreduces of {row['np']} ranks reach {reached} of bus bandwidth "
        f"({units.byte_size(row['size_bytes'])} each), {share} of the {allowed} that the hosts "
        "gave before the run."
    )


def _interval(row: FrameRow, name: str, scale: float) -> str:
    return units.rate_interval(*(scale * float(row[name.format(end)]) for end in _ENDS))


def collective_sections(analysis: RunAnalysis) -> tuple[Section, ...]:
    """Collectives and sizes, those that transfer longest first; none without a bus bandwidth."""
    table = analysis.table(COLLECTIVE_BANDWIDTHS.name)
    if table.empty:
        return ()
    rows = tuple(_row(row) for row in table.head(_MOST_ROWS).to_dict("records"))
    more = len(table) - len(rows)
    left_out = (
        f"{units.counted(more, 'more row')}: `--section {COLLECTIVE_BANDWIDTHS.name}` shows all."
    )
    sentences = (left_out,) if more else ()
    return (Section("Bus bandwidth", "", _BANDWIDTH_CAPTION, _HEADS, rows, sentences),)


def _row(row: FrameRow) -> tuple[str, ...]:
    low, high = (units.byte_size(row[name]) for name in ("size_low_bytes", "size_high_bytes"))
    return (
        str(row["collective"]),
        units.count(row["num_ranks"]),
        low if low == high else f"{low} to {high}",
        units.count(row["number"]),
        units.milliseconds(float(row["transfer_median_ns"])),
        units.of_unit(float(row["busbw_median_gb_per_s"]), "GB/s"),
    )


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

"""The network between the hosts of a run: its links, and how far the job uses them."""

from dataclasses import dataclass

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hvdprof import units
from hvdprof.model.frame_row import FrameRow
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.net_tables import NET_LINKS, NET_USE
from hvdprof.report.terminal.hanging_text import print_hanging

NET_HEADS = (
    "over",
    "between",
    "latency, ms",
    "bandwidth, MB/s",
    "alpha, ms",
    "beta, ms/MB",
)
"""What stands above the columns of a table of links."""

_ENDS = ("", "_low", "_high")
_OVER = {"tcp": "TCP", "broadcast": "Horovod", "allreduce": "allreduce"}
_MOST_PAIRS = 3
_CAPTION = "before the run, one rank on every host; TCP and Horovod one way, allreduce as a whole"


@dataclass(frozen=True, slots=True)
class NetRow:
    """One link as texts, with 95 % intervals."""

    over: str
    between: str
    latency: str
    bandwidth: str
    alpha: str
    beta: str


@dataclass(frozen=True, slots=True)
class NetSection:
    """The links of a run, the slowest first where they are many, and sentences on their use."""

    caption: str
    rows: tuple[NetRow, ...]
    sentences: tuple[str, ...]


def net_row(row: FrameRow) -> NetRow:
    """The texts of a row of NET_LINKS; where there is no fit, the reason in place of bandwidth."""
    is_pair = str(row["method"]) != "allreduce"
    between = f"{row['from_host']} - {row['to_host']}"
    return NetRow(
        over=_OVER.get(str(row["method"]), str(row["method"])),
        between=between if is_pair else f"all {units.count(row['np'])} hosts",
        latency=_interval(row, "latency{}_ns", 1e-6),
        bandwidth=str(row["reason"]) or _interval(row, "bandwidth{}_gb_per_s", 1000),
        alpha=_interval(row, "alpha{}_ns", 1e-6),
        beta=_interval(row, "beta{}_ns_per_mb", 1e-6),
    )


def shape_network(analysis: RunAnalysis) -> NetSection | None:
    """The links of a run; None where its network was not measured.

    Of more than three pairs of a method: the slowest three, and the number of pairs.
    """
    links = analysis.table(NET_LINKS.name)
    if links.empty:
        return None
    shown = links.sort_values("bandwidth_gb_per_s", kind="stable", na_position="first")
    rows: list[NetRow] = []
    left_out: list[str] = []
    for method in dict.fromkeys(links["method"].astype(str)):
        of_method = shown[shown["method"] == method]
        rows += [net_row(row) for row in of_method.head(_MOST_PAIRS).to_dict("records")]
        if len(of_method) > _MOST_PAIRS:
            left_out.append(_left_out(method, of_method))
    uses = analysis.table(NET_USE.name).to_dict("records")
    return NetSection(_CAPTION, tuple(rows), (*left_out, *(_use(row) for row in uses)))


def print_network(console: Console, section: NetSection | None) -> None:
    """Print the links and the sentences below; nothing where nothing was measured."""
    if section is None:
        return
    console.print(Text("\nNetwork between the hosts", style="bold"))
    print_hanging(console, "  ", section.caption, style="dim")
    frame = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    over, between, *numbers = NET_HEADS[:4]
    frame.add_column(f"  {over}", no_wrap=True)
    frame.add_column(between, overflow="fold")
    for name in numbers:
        frame.add_column(name, justify="right", overflow="fold")
    for row in section.rows:
        frame.add_row(f"  {row.over}", Text(row.between), row.latency, row.bandwidth)
    console.print(frame)
    for sentence in section.sentences:
        print_hanging(console, "  ", sentence)


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

"""NCCL logs: communicators, rings and trees, transports, warnings, and nccl-tests."""

from typing import Any

import dash_mantine_components as dmc
import pandas as pd
from dash import Dash
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.dashboards.components.data_table import filled_card, table_card
from hvdprof.dashboards.components.diagnosis_cards import headline_bar
from hvdprof.dashboards.components.empty_state import Lack, lack_card
from hvdprof.dashboards.components.section import figure_card
from hvdprof.dashboards.components.view_control import view_select
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from hvdprof.figures.host_links import transport_matrix
from hvdprof.figures.nccl_graph import ring_graph, tree_graph
from hvdprof.figures.transfer_sizes import bus_bandwidth
from hvdprof.model.arrays import FrameRow, is_missing
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.nccl_call_tables import NCCL_PROBLEMS
from hvdprof.model.tables.nccl_tables import (
    NCCL_CHANNELS,
    NCCL_COMMUNICATORS,
    NCCL_CONNECTIONS,
    NCCL_NETWORKS,
    NCCL_RANKS,
    NCCL_SETTINGS,
)
from hvdprof.model.tables.printed_tables import NCCL_TESTS

PATH = "/nccl"
TITLE = "NCCL"
KEYS: tuple[str, ...] = ("comm", "channel")

_FINDING_COLUMNS = ("severity", "title", "subject", "evidence", "action", "quote", "file", "line")
_PROBLEM_COLUMNS = ("kind", "text", "host", "where", "count", "file", "line")
_NETWORK_COLUMNS = ("subject", "state", "text", "host", "pid")
_SETTING_COLUMNS = ("variable", "value", "origin", "host", "pid")
_CONTROLS: dict[str, dict[str, Any]] = {
    "comm": {"description": "Communicator", "w": 300, "maw": "100%"},
    "channel": {"description": "Channel", "w": 120},
}
_TEST_COLUMNS = ("size_bytes", "in_place", "time_ns", "algbw_gb_s", "busbw_gb_s", "num_wrong")


def layout(runs: RunStore, view: View) -> dmc.Stack:
    """The page of a run or of standalone logs."""
    run_id = str(view.run)
    missing = lack(runs, run_id)
    if missing is not None:
        return lack_card(missing)
    parts = [
        *_trouble(runs, run_id),
        *_communicator(runs, view),
        *_tests(runs, view),
        *_environment(runs, run_id),
    ]
    return dmc.Stack([headline_bar(_answer(runs, run_id)), *parts], gap="md")


def lack(runs: RunStore, run_id: str) -> Lack | None:
    """A run without logs of NCCL and without results of nccl-tests."""
    tables = (NCCL_COMMUNICATORS, NCCL_PROBLEMS, NCCL_TESTS, NCCL_NETWORKS, NCCL_SETTINGS)
    is_filled = any(len(runs.table(run_id, table.name)) for table in tables)
    if is_filled or len(_findings(runs, run_id)):
        return None
    return Lack(
        "No NCCL log and no nccl-tests output.",
        (
            "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH,NET,TUNING,COLL "
            "NCCL_DEBUG_FILE=nccl.%h.%p.log horovodrun -np 4 python train.py",
            "hvdprof dashboard nccl.log",
        ),
        about="This page then shows the transports between ranks, NCCL's rings and trees, and "
        "problems. Jobs on CPUs alone use no NCCL.",
    )


def register(app: Dash, runs: RunStore) -> None:
    """The page has no callbacks of its own."""


def _answer(runs: RunStore, run_id: str) -> str:
    """The worst finding on NCCL, else what the logs hold."""
    findings = _findings(runs, run_id).to_dict("records")
    problems = runs.table(run_id, NCCL_PROBLEMS.name)
    communicators = runs.table(run_id, NCCL_COMMUNICATORS.name)
    parts = []
    if findings:
        parts.append(f"{str(findings[0]['severity']).capitalize()}: {findings[0]['title']}.")
    if len(problems):
        lines = units.counted(int(problems["count"].sum()), "line")
        parts.append(f"{lines} with a warning or an error in the logs.")
    elif not findings:
        parts.append("No problem found.")
    if len(communicators):
        seen = communicators["num_ranks_seen"]
        largest = communicators.to_dict("records")[int(seen.to_numpy().argmax())]
        hosts = units.counted(int(largest["num_hosts"]), "host")
        number = units.counted(int(communicators["num_joined"].sum()), "communicator")
        lost = int((~runs.table(run_id, NCCL_RANKS.name)["complete"].astype(bool)).sum())
        parts.append(f"{number}, the largest of {_members(largest)} on {hosts}.")
        if lost:
            parts.append(f"{units.counted(lost, 'rank')} did not complete the init.")
    tests = runs.table(run_id, NCCL_TESTS.name)
    if len(tests):
        busbw = float(tests["busbw_gb_s"].max())
        parts.append(f"nccl-tests: up to {units.of_unit(busbw, 'GB/s')} bus bandwidth.")
    return " ".join(parts)


def _members(communicator: FrameRow) -> str:
    """How many of the ranks of a communicator have a line in the logs."""
    seen, size = communicator["num_ranks_seen"], communicator["num_ranks"]
    if is_missing(size) or int(size) == int(seen):
        return units.counted(int(seen), "rank")
    return f"{units.count(seen)} of {units.counted(int(size), 'rank')} in the log"


def _findings(runs: RunStore, run_id: str) -> pd.DataFrame:
    findings = runs.table(run_id, FINDINGS.name)
    return findings[findings["id"].astype(str).str.startswith("nccl")]


def _trouble(runs: RunStore, run_id: str) -> list[Component]:
    problems = runs.table(run_id, NCCL_PROBLEMS.name)
    about = "Errors break the job, warnings cost speed, notes are information."
    return [
        *filled_card("Problems", FINDINGS, _findings(runs, run_id), _FINDING_COLUMNS, about),
        *filled_card("Warnings and errors in the logs", NCCL_PROBLEMS, problems, _PROBLEM_COLUMNS),
    ]


def _communicator(runs: RunStore, view: View) -> list[Component]:
    run_id = str(view.run)
    communicators = runs.table(run_id, NCCL_COMMUNICATORS.name)
    if communicators.empty:
        return []
    chosen = _chosen_communicator(communicators, view)
    rings, trees, connections, ranks, channels = (
        _of(runs.table(run_id, f"nccl_{name}"), chosen)
        for name in ("rings", "trees", "connections", "ranks", "channels")
    )
    numbers = sorted(
        {int(number) for table in (rings, trees, connections) for number in table["channel"]}
    )
    asked = view.whole("channel")
    channel = asked if asked in numbers else next(iter(numbers), 0)
    about = (
        "Lines are coloured by transport, borders of ranks by host; hover over a rank to see its "
        "host."
    )
    cards = [
        table_card(
            "Communicators",
            NCCL_COMMUNICATORS,
            communicators,
            about="Groups of ranks, joined from the lines of their ranks.",
        ),
        _controls(communicators, chosen, numbers, channel),
        figure_card(
            "transports",
            "Transports between ranks",
            transport_matrix(connections),
            about="The slowest connection of each pair over all channels. Expected: P2P within a "
            "host, GPUDirect RDMA between hosts with GPUs.",
        ),
        figure_card(
            "ring",
            f"Ring of channel {channel}",
            ring_graph(rings, channels, connections, ranks, channel, _size(communicators, chosen)),
            about=about,
        ),
        figure_card(
            "tree",
            f"Tree of channel {channel}",
            tree_graph(trees, connections, ranks, channel),
            about=about,
        ),
    ]
    cards += filled_card("Channels", NCCL_CHANNELS, channels)
    return cards + filled_card("Connections", NCCL_CONNECTIONS, connections)


def _controls(
    communicators: pd.DataFrame, chosen: int, channels: list[int], channel: int
) -> dmc.Group:
    options = [
        {
            "value": str(row["communicator"]),
            "label": f"{row['communicator']}: {_members(row)} "
            f"on {units.counted(int(row['num_hosts']), 'host')}",
        }
        for row in communicators.to_dict("records")
    ]
    numbers = [str(number) for number in channels or [channel]]
    return dmc.Group(
        [
            view_select("comm", "Communicator", options, str(chosen), **_CONTROLS["comm"]),
            view_select("channel", "Channel", numbers, str(channel), **_CONTROLS["channel"]),
        ]
    )


def _chosen_communicator(communicators: pd.DataFrame, view: View) -> int:
    numbers = communicators["communicator"]
    asked = view.whole("comm")
    if asked is not None and (numbers == asked).any():
        return asked
    most = communicators["num_ranks_seen"].to_numpy().argmax()
    return int(numbers.iloc[int(most)])


def _size(communicators: pd.DataFrame, chosen: int) -> int | None:
    """The number of ranks of a communicator; ``None`` where unknown."""
    known = _of(communicators, chosen)["num_ranks"].dropna()
    return int(known.iloc[0]) if len(known) else None


def _of(table: pd.DataFrame, communicator: int) -> pd.DataFrame:
    return table[(table["communicator"] == communicator).fillna(False).to_numpy(dtype=bool)]


def _environment(runs: RunStore, run_id: str) -> list[Component]:
    cards = []
    for title, table, columns, about in (
        ("Networks", NCCL_NETWORKS, _NETWORK_COLUMNS, "Networks found and chosen by each process."),
        ("Settings", NCCL_SETTINGS, _SETTING_COLUMNS, "Settings other than NCCL's defaults."),
    ):
        cards += filled_card(title, table, runs.table(run_id, table.name), columns, about)
    return cards


def _tests(runs: RunStore, view: View) -> list[Component]:
    run_id = str(view.run)
    tests = runs.table(run_id, NCCL_TESTS.name)
    if tests.empty:
        return []
    busbw = bus_bandwidth(runs.table(run_id, "collectives"), runs.run(run_id).segments, tests)
    return [
        figure_card(
            "nccl-tests",
            "Bus bandwidth by nccl-tests",
            busbw,
            about="Bus bandwidth of the idle machine, by size, and that of the job where a "
            "timeline exists. The gap between both is not caused by the network.",
        ),
        table_card("Results of nccl-tests", NCCL_TESTS, tests, columns=_TEST_COLUMNS),
    ]

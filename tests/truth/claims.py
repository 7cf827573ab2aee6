"""What hvdprof claims of a file, as the same plain tuples as ``own_parse``."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from hvdprof.api import Tables, load_tables
from hvdprof.errors import UnreadableInputError
from tests.truth import own_parse
from tests.truth.own_parse import Facts

NS_PER_US = 1000


@dataclass(frozen=True)
class Difference:
    """Facts of one kind that hvdprof lacks, and claims that are no fact."""

    kind: str
    missing: Facts
    invented: Facts


def differences(path: Path) -> list[Difference]:
    """Where the tables of a file differ from what it says."""
    text = path.read_text(encoding="utf-8", errors="replace")
    stated = {
        "timeouts": own_parse.timeouts(text),
        "connections": own_parse.connections(text),
        "completed": own_parse.completed(text),
        "rows": own_parse.test_rows(text),
        "stalls": own_parse.stalls(text),
        "rates": own_parse.rates(text),
        "ends": own_parse.ends(text),
    }
    claimed = facts_of(tables_of(path))
    found = [
        Difference(kind, facts - claimed[kind], claimed[kind] - facts)
        for kind, facts in stated.items()
    ]
    return [one for one in found if one.missing or one.invented]


def tables_of(path: Path) -> Tables:
    """The tables of a file; none where hvdprof says that it holds nothing known."""
    try:
        return load_tables(path)
    except UnreadableInputError:
        return Tables({})


def facts_of(tables: Tables) -> dict[str, Facts]:
    """What tables claim, by kind."""
    return {
        "timeouts": _timeouts(tables),
        "connections": _connections(tables),
        "completed": _completed(tables),
        "rows": _rows(tables),
        "stalls": _stalls(tables),
        "rates": _rates(tables),
        "ends": _ends(tables),
    }


def _timeouts(tables: Tables) -> Facts:
    rows = tables.collective_timeouts
    named = rows.loc[rows["timed_out"], ["rank", "sequence", "operation"]].dropna()
    # A line that ends before the operation is a claim on rank and number alone.
    whole = named[named["operation"] != ""]
    return Counter({(int(rank), int(number), str(kind)): 1 for rank, number, kind in _each(whole)})


def _connections(tables: Tables) -> Facts:
    rows = tables.nccl_connections.dropna(subset=["destination"])
    columns = rows[["channel", "source", "destination", "transport"]]
    return Counter((int(a), int(b), int(c), str(kind)) for a, b, c, kind in _each(columns))


def _completed(tables: Tables) -> Facts:
    ranks = tables.nccl_ranks
    rows = ranks.loc[ranks["complete"], ["rank", "num_ranks"]].dropna()
    return Counter({(int(rank), int(size)): 1 for rank, size in _each(rows)})


def _rows(tables: Tables) -> Facts:
    rows = tables.nccl_tests
    columns = rows[["size_bytes", "in_place", "time_ns", "busbw_gb_s"]]
    return Counter(
        (
            int(str(size)),
            None if pd.isna(place) else bool(place),
            round(float(str(time)) / NS_PER_US, 2),
            None if pd.isna(busbw) else float(str(busbw)),
        )
        for size, place, time, busbw in _each(columns)
    )


def _stalls(tables: Tables) -> Facts:
    rows = tables.stalls[["tensor", "state", "stalled_rank"]]
    return Counter({(str(name), str(state), int(rank)): 1 for name, state, rank in _each(rows)})


def _rates(tables: Tables) -> Facts:
    return Counter((own_parse.significant(float(rate)),) for rate in tables.printed_rates["rate"])


def _ends(tables: Tables) -> Facts:
    rows = tables.incidents
    chosen = rows[(rows["kind"] == "process-end") & rows["failed_rank"].notna()]
    columns = chosen[["failed_rank", "exit_code", "signal"]]
    return Counter(
        {(int(rank), _number(code), _number(signal)): 1 for rank, code, signal in _each(columns)}
    )


def _number(value: object) -> int | None:
    return None if pd.isna(value) else int(str(value))


def _each(frame: pd.DataFrame) -> list[list[object]]:
    rows: list[list[object]] = frame.to_numpy(dtype=object).tolist()
    return rows

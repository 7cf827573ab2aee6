"""Launches of a figure: those in a table, the default one, and its rows."""

import numpy as np
import pandas as pd

from hvdprof.model.cell_key import DDP_ENGINE, has_no_toggles, setting_of_row
from hvdprof.model.launch_key import LAUNCH, LaunchKey, finished_launches

_CELL = ["mode", "engine", "model", "size", "compression", "reduction"]
_PREFERRED = ("throughput", "trace", "attribution")


def launches_in(table: pd.DataFrame) -> list[LaunchKey]:
    """The launches (pass_id, segment) with rows in a table, in their order."""
    passes, segments = (pd.factorize(table[name]) for name in LAUNCH)
    both = passes[0].astype(np.int64) * (len(segments[1]) + 1) + segments[0]
    firsts = pd.Series(both).drop_duplicates().index
    found = table[LAUNCH].iloc[firsts].astype(str)
    return list(found.itertuples(index=False, name=None))


def rows_of_launch(table: pd.DataFrame, launch: LaunchKey | None) -> pd.DataFrame:
    """The rows of one launch; none where there is no launch."""
    if launch is None:
        return table.iloc[:0]
    is_there = (table["pass_id"] == launch[0]) & (table["segment"] == launch[1])
    return table[is_there.to_numpy(dtype=bool)]


def rows_of_cell(segments: pd.DataFrame, table: pd.DataFrame, launch: LaunchKey) -> pd.DataFrame:
    """The rows of all launches of the same cell in the same mode as this one.

    Args:
        segments: SEGMENTS; without this launch in it, only the rows of the launch are returned.
        table: Any table with pass_id and segment.
        launch: The launch.
    """
    own = rows_of_launch(segments, launch)
    if own.empty:
        return rows_of_launch(table, launch)
    alike = segments.astype(dict.fromkeys(_CELL, str)).merge(own[_CELL].astype(str), on=_CELL)
    names = dict.fromkeys(LAUNCH, str)
    return table.astype(names).merge(alike[LAUNCH].astype(names).drop_duplicates(), on=LAUNCH)


def opening_launch(
    segments: pd.DataFrame,
    table: pd.DataFrame,
    model: str = "",
    num_ranks: int = 0,
    setting: str = "",
) -> LaunchKey | None:
    """The default launch of a table; None without any.

    That is the first of the given model, of these at the number of ranks, of these with the
    setting, else without toggles; preferably in throughput mode; otherwise the first without
    toggles and with the most ranks. A failed launch is chosen only where the cell has no other.

    Args:
        segments: SEGMENTS.
        table: Any table with pass_id and segment.
        model: Model of the cell, such as that of the verdict.
        num_ranks: Its number of ranks.
        setting: Its engine and toggles, as ``cell_key.setting_name`` writes them.
    """
    found = launches_in(table)
    rows = {(str(row["pass_id"]), str(row["segment"])): row for row in segments.to_dict("records")}
    finished = set(finished_launches(segments))
    order = {mode: place for place, mode in enumerate(_PREFERRED)}

    def badness(launch: LaunchKey) -> tuple[bool | int, ...]:
        row = rows.get(launch)
        if row is None:
            return (True, True, True, True, 0, True, len(order))
        is_plain = has_no_toggles(row) and row["engine"] != DDP_ENGINE
        mode = order.get(str(row["mode"]), len(order))
        return (
            row["model"] != model,
            row["size"] != num_ranks,
            bool(setting) and setting_of_row(row) != setting,
            not is_plain,
            -int(row["size"]),
            launch not in finished,
            mode,
        )

    return min(found, key=badness, default=None)


def launch_label(segments: pd.DataFrame, launch: LaunchKey) -> str:
    """Label of a launch, ``resnet18 np=2, fp16 average (05-np2-throughput-r2)``."""
    own = rows_of_launch(segments, launch)
    if own.empty:
        return " ".join(part for part in launch if part)
    row = own.iloc[0]
    return f"{row['model']} np={row['size']}, {setting_of_row(row)} ({launch[0]})"

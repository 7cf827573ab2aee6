"""The input of the rules on a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import (
    CELL_KEY,
    LAUNCH,
    has_no_toggles,
    is_finished,
    rows_by_launch,
    with_engine,
    without_toggles,
)
from hvdprof.model.run import Run
from hvdprof.model.schema import as_text
from hvdprof.model.tables.sample_tables import RANK_MACHINE
from hvdprof.rundir.attached import attached_files
from hvdprof.rundir.plan import HOROVOD_ENGINE

Cell = Mapping[str, Any]
"""A row of SCALING."""


@dataclass(frozen=True)
class Evidence:
    """A run and the tables of its analysis by name; a table that is not there has no rows.

    Some thirty rules ask for the same rows, which are made once.
    """

    run: Run
    tables: Mapping[str, pd.DataFrame]

    @property
    def measure(self) -> str:
        """The command that measures this again: of a script, or of a reference model."""
        manifest = self.run.manifest
        is_script = manifest.settings.get("script") or attached_files(manifest)
        return f"hvdprof {'run' if is_script else 'bench'}"

    def table(self, name: str) -> pd.DataFrame:
        """A table of the analysis, else of the run, else without rows."""
        frame = self.tables.get(name)
        return self.run.table(name) if frame is None else frame

    def cells(self, *, oversubscribed: bool = False) -> list[Cell]:
        """The rows of SCALING under Horovod or DDP as dictionaries.

        Args:
            oversubscribed: Whether to include cells with more ranks than cores.
        """
        return [cell for cell in self._cells if oversubscribed or not cell["oversubscribed"]]

    @cached_property
    def _cells(self) -> list[Cell]:
        scaling = self.table("scaling")
        rows = scaling[with_engine(scaling)].to_dict("records")
        return [{str(name): value for name, value in row.items()} for row in rows]

    def causes_of(self, cell: Cell) -> list[FrameRow]:
        """The rows of WATERFALL of a cell."""
        return self._causes.get(tuple(cell[name] for name in CELL_KEY), [])

    @cached_property
    def _causes(self) -> dict[tuple[object, ...], list[FrameRow]]:
        causes: dict[tuple[object, ...], list[FrameRow]] = {}
        for row in self.table("waterfall").to_dict("records"):
            causes.setdefault(tuple(row[name] for name in CELL_KEY), []).append(row)
        return causes

    def cells_of_horovod(self) -> list[Cell]:
        """Those of ``cells`` that Horovod's own settings may explain."""
        return [cell for cell in self.cells() if cell["engine"] == HOROVOD_ENGINE]

    @cached_property
    def measured(self) -> pd.DataFrame:
        """Rows of SEGMENTS that speak for their cell: finished, for throughput, without toggles.

        Names are plain text, so that they can be merged with any table.
        """
        segments = self.run.segments
        throughput = (segments["mode"] == "throughput").to_numpy()
        base = segments[throughput & without_toggles(segments) & is_finished(segments)]
        names = {"model": "str", "size": "int64", "engine": "str", "oversubscribed": "bool"}
        return base[[*LAUNCH, *names]].astype({**dict.fromkeys(LAUNCH, "str"), **names})

    @cached_property
    def machine_rows(self) -> pd.DataFrame:
        """RANK_MACHINE of the launches that speak for their cells, names as plain text."""
        rows = as_text(self.table(RANK_MACHINE.name), [*LAUNCH, "measure"])
        merged: pd.DataFrame = rows.merge(self.measured[LAUNCH], on=LAUNCH)
        return merged

    @cached_property
    def _cell_of(self) -> dict[tuple[object, object], list[object]]:
        names = [*LAUNCH, "model", "size", "engine"]
        rows = zip(*(self.measured[name].tolist() for name in names), strict=True)
        return {(pass_id, segment): cell for pass_id, segment, *cell in rows}

    def launches_of(self, cell: Cell) -> pd.DataFrame:
        """Keys of the launches that speak for a cell."""
        is_own = [of == _of(cell) for of in self._cell_of.values()]
        keys: pd.DataFrame = self.measured.loc[is_own, list(LAUNCH)]
        return keys

    def rows_of(self, rows: pd.DataFrame, cell: Cell) -> pd.DataFrame:
        """Rows of a table that are of such launches, with names as plain text."""
        own = [
            places for key, places in rows_by_launch(rows) if self._cell_of.get(key) == _of(cell)
        ]
        chosen = rows.iloc[np.sort(np.concatenate(own))] if own else rows.iloc[:0]
        return as_text(chosen.reset_index(drop=True), LAUNCH)

    def setting(self, name: str) -> str | None:
        """A variable as Horovod's ranks had it; None where it was not set, or none ran."""
        manifest = self.run.manifest
        own = [record for record in manifest.passes if record.engine == HOROVOD_ENGINE]
        for record in own:
            if name in record.environment:
                return record.environment[name]
        return manifest.environment.get(name) if own or not manifest.passes else None

    @property
    def is_on_one_host(self) -> bool:
        """Whether every rank of every pass was recorded, all on one host."""
        ranks = self.run.ranks
        wanted = {record.id: record.size for record in self.run.manifest.passes}
        recorded = ranks.groupby("pass_id", observed=True)["rank"].nunique()
        is_whole = {str(name): int(number) for name, number in recorded.items()} == wanted
        return is_whole and len(ranks["hostname"].drop_duplicates()) == 1

    @property
    def controllers(self) -> set[str]:
        """The controllers of the passes of Horovod: gloo, mpi."""
        passes = self.run.manifest.passes
        return {record.controller for record in passes if record.engine == HOROVOD_ENGINE}


def _of(cell: Cell) -> list[object]:
    return [cell["model"], cell["np"], cell["engine"]]


def is_base(row: Cell) -> bool:
    """Whether a row of a cell is one without toggles."""
    return has_no_toggles(row)

"""Time of each tensor, and of negotiation and execution in each step, with fused time counted once.

Sums grow piece by piece, because the uses of a large timeline do not fit into memory at once.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.stats.intervals import merged_by_key
from hvdprof.model.arrays import group_codes
from hvdprof.model.cell_key import LAUNCH
from hvdprof.model.schema import as_text
from hvdprof.model.tables.collective_tables import STEP_COMMUNICATION, TENSORS

_ID = [*LAUNCH, "fusion_id"]
_STEP = [*LAUNCH, "step"]
_TENSOR = [*LAUNCH, "tensor", "collective"]
_TIMES = ["time_ns", "warmup_ns"]
_NEGOTIATION, _EXECUTION, _EITHER = 0, 1, 2
_LENGTHS = ["negotiation_ns", "execution_ns", "communication_ns"]
"""The columns of these kinds, in their order."""


class TensorSums:
    """What is known of tensors and steps after some pieces of a timeline."""

    def __init__(self) -> None:
        self._tensors: list[pd.DataFrame] = []
        self._steps: list[pd.DataFrame] = []
        self._intervals: list[pd.DataFrame] = []

    def add(self, executions: pd.DataFrame, uses: pd.DataFrame) -> None:
        """Add whole executions with all uses that they consist of.

        Args:
            executions: EXECUTIONS.
            uses: TENSOR_USES; those that belong to no execution are left out.
        """
        if executions.empty and uses.empty:
            return
        executed = as_text(executions, LAUNCH)
        known = as_text(uses[uses["fusion_id"] >= 0], _TENSOR)
        self._tensors.append(_by_tensor(known, executed))
        stepped = executed[executed["step"] >= 0]
        self._steps.append(_summed(stepped.assign(num_executions=1), _STEP, ["num_executions"]))
        self._intervals.append(_merged(_intervals(stepped, known[known["step"] >= 0])))

    def tensors(self) -> pd.DataFrame:
        """TENSORS, the most expensive one of each launch first."""
        if not self._tensors:
            return TENSORS.empty()
        sums = _summed(_joined(self._tensors), _TENSOR, ["num_uses", "negotiation_ns", *_TIMES])
        if sums.empty:
            return TENSORS.empty()
        ordered = sums.sort_values([*LAUNCH, "time_ns"], ascending=[True, True, False])
        return TENSORS.frame(ordered)

    def steps(self) -> pd.DataFrame:
        """STEP_COMMUNICATION in the order of the steps."""
        if not self._steps:
            return STEP_COMMUNICATION.empty()
        sums = _summed(_joined(self._steps), _STEP, ["num_executions"])
        if sums.empty:
            return STEP_COMMUNICATION.empty()
        whole = _merged(_joined(self._intervals))
        codes, first = group_codes(pd.concat([sums[_STEP], whole[_STEP]]), _STEP)
        lengths = np.zeros((len(first), len(_LENGTHS)), dtype=np.int64)
        kinds, ends = codes[len(sums) :], (whole["end_ns"] - whole["start_ns"]).to_numpy()
        np.add.at(lengths, (kinds, whole["kind"].to_numpy()), ends)
        of_steps = lengths[codes[: len(sums)]]
        table = sums.assign(**dict(zip(_LENGTHS, of_steps.T, strict=True)))
        return STEP_COMMUNICATION.frame(table.sort_values(_STEP))


def _by_tensor(uses: pd.DataFrame, executions: pd.DataFrame) -> pd.DataFrame:
    lengths = executions[[*_ID, "dur_ns", "warmup"]].rename(columns={"warmup": "is_warmup"})
    table = uses.drop(columns=["dur_ns", "warmup"]).merge(lengths, on=_ID, how="left")
    codes, _ = group_codes(table, _ID)
    size = _numbers(table["size_bytes"])
    count = np.bincount(codes)[codes]
    # Unknown where a size of the execution is.
    whole = np.bincount(codes, size)[codes]
    by_bytes = whole > 0
    share = np.where(by_bytes, size / np.where(by_bytes, whole, 1), 1 / count)
    time = np.nan_to_num(_numbers(table["dur_ns"]) * share)
    is_warmup = table["is_warmup"].fillna(False).to_numpy(dtype=bool)
    return _summed(
        table.assign(
            num_uses=1,
            time_ns=np.where(is_warmup, 0.0, time),
            warmup_ns=np.where(is_warmup, time, 0.0),
            negotiation_ns=table["negotiation_ns"].fillna(0).astype("int64"),
        ),
        _TENSOR,
        ["num_uses", "negotiation_ns", *_TIMES],
    )


def _numbers(column: "pd.Series[int]") -> NDArray[np.float64]:
    return np.asarray(column.astype("Float64").to_numpy(dtype="float64", na_value=np.nan))


def _summed(rows: pd.DataFrame, keys: list[str], columns: list[str]) -> pd.DataFrame:
    """Sums by key; bytes are missing where those of one row are."""
    codes, first = group_codes(rows, keys)
    added = rows[[*columns, "size_bytes"]].assign(unknown=rows["size_bytes"].isna())
    sums = added.groupby(codes).sum()
    sums["size_bytes"] = sums["size_bytes"].astype("Int64").mask(sums.pop("unknown") > 0)
    return pd.concat([rows[keys].iloc[first].reset_index(drop=True), sums], axis=1)


def _intervals(executions: pd.DataFrame, uses: pd.DataFrame) -> pd.DataFrame:
    """Step, kind, start and end of every negotiation and execution, and of both as one kind."""
    negotiated = uses[uses["negotiation_start_ns"].notna() & uses["negotiation_ns"].notna()]
    ended = executions[executions["dur_ns"].notna()]
    parts = []
    for rows, start, length, kind in (
        (negotiated, "negotiation_start_ns", "negotiation_ns", _NEGOTIATION),
        (ended, "start_ns", "dur_ns", _EXECUTION),
    ):
        begin = rows[start].astype("int64")
        end = begin + rows[length].astype("int64")
        one = rows[_STEP].assign(start_ns=begin, end_ns=end)
        parts += [one.assign(kind=kind), one.assign(kind=_EITHER)]
    return _joined(parts)


def _merged(rows: pd.DataFrame) -> pd.DataFrame:
    """The same time of each step and kind as disjoint intervals."""
    keys = [*_STEP, "kind"]
    codes, first = group_codes(rows, keys)
    names = rows[keys].iloc[first]
    start, end = (rows[name].to_numpy(dtype=np.int64) for name in ("start_ns", "end_ns"))
    code, begin, finish = merged_by_key(codes, start, end)
    return names.take(code).assign(start_ns=begin, end_ns=finish).reset_index(drop=True)


def _joined(pieces: list[pd.DataFrame]) -> pd.DataFrame:
    filled = [piece for piece in pieces if len(piece)]
    return pd.concat(filled, ignore_index=True) if filled else pieces[0]

"""Analyses of synthetic runs, and tables as text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.pipeline import analyze_run
from hvdprof.api import load_run
from hvdprof.model.run import RunAnalysis
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run


def analysis_of(folder: Path, passes: Sequence[PassSpec], **manifest_fields: Any) -> RunAnalysis:
    """The analysis of a run directory of these passes."""
    return analyze_run(load_run(write_run(folder, passes, **manifest_fields)))


def sweep(
    step_ms: dict[int, float], *, blocked_ms: dict[int, float] | None = None, **segment: Any
) -> list[PassSpec]:
    """Three launches of every number of ranks; torch is number 0. Launches differ by 1 %."""
    blocked = blocked_ms or {}
    return [
        PassSpec(
            size=max(size, 1),
            repeat=repeat,
            segments=[
                SegmentSpec(
                    engine="horovod" if size else "torch",
                    parts_ms=typical_parts(time_ms * factor, blocked.get(size, 0.0)),
                    **segment,
                )
            ],
        )
        for repeat, factor in enumerate((0.99, 1.0, 1.01), start=1)
        for size, time_ms in step_ms.items()
    ]


def with_a_straggler(
    size: int = 2, *, rank: int = 1, extra_ms: Sequence[float] = (3.0, 3.0, 3.0)
) -> list[PassSpec]:
    """Plain torch with 8 ms per step, and ``size`` ranks of which one takes longer in forward.

    One launch per value of ``extra_ms``; every rank is blocked for 2 ms besides.
    """
    passes = sweep({0: 8.0})
    for repeat, extra in enumerate(extra_ms, start=1):
        parts = {
            name: np.full((size, 1), float(length))
            for name, length in typical_parts(10.0, 2.0).items()
        }
        parts["forward"][rank] += extra
        parts["blocked"][np.arange(size) != rank] += extra
        passes.append(PassSpec(size=size, repeat=repeat, segments=[SegmentSpec(parts_ms=parts)]))
    return passes


def table_text(table: pd.DataFrame, columns: Sequence[str], digits: int = 3) -> str:
    """Some columns of a table as a reader would write them down."""
    lines = [
        " ".join(f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell) for cell in row)
        for row in table[list(columns)].itertuples(index=False, name=None)
    ]
    return "\n".join(lines)


def autoregressive(rng: np.random.Generator, num: int, correlation: float) -> NDArray[np.float64]:
    """An AR(1) series of mean 0 and variance 1."""
    noise = rng.normal(size=num) * np.sqrt(1 - correlation**2)
    series = np.empty(num)
    series[0] = rng.normal()
    for i in range(1, num):
        series[i] = correlation * series[i - 1] + noise[i]
    return series

"""The columns that name a cell or a launch in every table, and their names in texts."""

from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.model.schema import Column, as_text
from hvdprof.rundir.manifest import Mode as Mode
from hvdprof.rundir.manifest import Status
from hvdprof.rundir.plan import COLLECTIVES_ENGINE as COLLECTIVES_ENGINE
from hvdprof.rundir.plan import (
    DATA_PARALLEL_ENGINE,
    OTHER_ENGINES,
    RECORDED_ONCE,
    TF_CENTRAL_STORAGE,
    TF_MIRRORED,
    TF_MULTIWORKER,
    TF_PARAMETER_SERVER,
)
from hvdprof.rundir.plan import DDP_ENGINE as DDP_ENGINE
from hvdprof.rundir.plan import FSDP_ENGINE as FSDP_ENGINE
from hvdprof.rundir.plan import HOROVOD_ENGINE as HOROVOD_ENGINE
from hvdprof.rundir.plan import TORCH_ENGINE as TORCH_ENGINE

CELL_COLUMNS: tuple[Column, ...] = (
    Column("model", "str", "Name of the reference model."),
    Column("np", "int64", "Number of ranks."),
    Column(
        "engine",
        "str",
        "Reduction engine: horovod, ddp for PyTorch's DistributedDataParallel, data-parallel for "
        "its DataParallel, fsdp for FSDP2, "
        "collectives for torch.distributed otherwise, torch for plain PyTorch on one rank, "
        "tf-multiworker, tf-mirrored, tf-central-storage or tf-parameter-server for a strategy of "
        "tf.distribute, or unknown where attached files do not say it.",
    ),
    Column(
        "compression",
        "str",
        "Gradient compression: none or fp16; unknown where not recorded, as in profiler traces.",
    ),
    Column(
        "reduction",
        "str",
        "Reduction of the gradients: average or adasum; unknown where not recorded.",
    ),
)
"""The columns that name a cell, the same in every table of cells."""

LAUNCH = ["pass_id", "segment"]
"""The columns that name a launch."""

LaunchKey = tuple[str, str]
"""Their values: folder of the pass, id of the segment."""


class CellRow(Protocol):
    """A row of a table of cells: a series or a mapping."""

    def __getitem__(self, column: str, /) -> object:
        """The value of a column."""


CELL_KEY: tuple[str, ...] = tuple(column.name for column in CELL_COLUMNS)

UNKNOWN = "unknown"
"""The engine or the toggle of a cell whose files do not say it."""

ENGINE_TITLES: dict[str, str] = {
    TORCH_ENGINE: "plain torch",
    HOROVOD_ENGINE: "Horovod",
    DDP_ENGINE: "DDP",
    DATA_PARALLEL_ENGINE: "DataParallel",
    FSDP_ENGINE: "FSDP2",
    COLLECTIVES_ENGINE: "torch.distributed",
    TF_MULTIWORKER: "MultiWorkerMirroredStrategy",
    TF_MIRRORED: "MirroredStrategy",
    TF_CENTRAL_STORAGE: "CentralStorageStrategy",
    TF_PARAMETER_SERVER: "ParameterServerStrategy",
    UNKNOWN: "engine unknown",
}
"""Names of the engines in texts, in the order of tables."""

NO_COMPRESSION = ("none", UNKNOWN)
NO_ADASUM = ("average", UNKNOWN)
"""Values of ``compression`` and ``reduction`` with which no toggle is on, as far as is known."""


def has_no_toggles(row: CellRow) -> bool:
    """Whether a row of a table of cells, or of SEGMENTS, is without compression and Adasum."""
    return row["compression"] in NO_COMPRESSION and row["reduction"] in NO_ADASUM


def without_toggles(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Mask of the rows of a table of cells, or of SEGMENTS, without compression and Adasum."""
    # Rows are few, and asked for often: pandas takes ten times as long to compare a column.
    pairs = zip(rows["compression"].tolist(), rows["reduction"].tolist(), strict=True)
    plain = [one in NO_COMPRESSION and other in NO_ADASUM for one, other in pairs]
    return np.array(plain, dtype=np.bool_)


def with_engine(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Mask of the rows of a table of cells, or of SEGMENTS, other than plain torch."""
    return (rows["engine"] != TORCH_ENGINE).to_numpy(dtype=bool)


def ranks_lacking(segments: pd.DataFrame) -> NDArray[np.bool_]:
    """Mask of the rows of SEGMENTS with ranks that were to record and did not.

    Some strategies record once, as rank 0.
    """
    records_whole = segments["engine"].isin(RECORDED_ONCE).to_numpy()
    is_lacking = (segments["num_ranks_recorded"] < segments["size"]).to_numpy()
    return np.asarray(is_lacking & ~records_whole, dtype=np.bool_)


def ranks_beside(engines: Iterable[str]) -> str:
    """A sentence on the processes that count beside the ranks under one of the engines, else ""."""
    if TF_PARAMETER_SERVER not in set(engines):
        return ""
    title = ENGINE_TITLES[TF_PARAMETER_SERVER]
    return f"Under {title} its coordinator and parameter server count as ranks. "


def of_base_cell(rows: pd.DataFrame, model: str, np_: int, engine: str) -> pd.DataFrame:
    """The rows of one cell without toggles.

    Args:
        rows: A table of cells, or SEGMENTS, in which the number of ranks is ``size``.
        model: Its model.
        np_: Its number of ranks.
        engine: Its engine.
    """
    size = (rows["np" if "np" in rows.columns else "size"] == np_).to_numpy(dtype=bool)
    names = zip(rows["model"].tolist(), rows["engine"].tolist(), strict=True)
    named = np.array([of == (model, engine) for of in names], dtype=np.bool_)
    return rows[named & size & without_toggles(rows)]


def keeps_batches(scaling: pd.DataFrame, model: str) -> bool:
    """Whether all cells of a model have the same samples per rank and step, as in weak scaling.

    Otherwise a cell is compared with the same number of samples of the baseline, not with a step.
    """
    batches = scaling.loc[(scaling["model"] == model).to_numpy(dtype=bool), "batch_size"]
    return len(batches.drop_duplicates()) <= 1


def toggles_name(compression: str, reduction: str) -> str:
    """The toggles that are on, such as ``fp16 Adasum``; "" without any.

    Toggles that no file says are ``toggles unknown``.
    """
    if (compression, reduction) == (UNKNOWN, UNKNOWN):
        return f"toggles {UNKNOWN}"
    on = ["" if compression in NO_COMPRESSION else compression]
    on.append("" if reduction in NO_ADASUM else reduction.capitalize())
    return " ".join(filter(None, on))


def setting_name(engine: str, compression: str, reduction: str) -> str:
    """What a cell has else than Horovod without toggles: ``fp16``, ``DDP``, ``DDP fp16``.

    A cell with nothing else is ``Horovod``; plain torch has no toggles.
    """
    title, toggles = ENGINE_TITLES[engine], toggles_name(compression, reduction)
    if engine == TORCH_ENGINE or not toggles:
        return title
    return toggles if engine == HOROVOD_ENGINE else f"{title} {toggles}"


def setting_of_row(row: CellRow) -> str:
    """``setting_name`` of a row of a table of cells, or of SEGMENTS: a series or a mapping."""
    return setting_name(str(row["engine"]), str(row["compression"]), str(row["reduction"]))


def toggles_beside(row: CellRow) -> str:
    """What ``place_name`` of a row leaves out: its toggles or ``plain torch``, "" without any."""
    if row["engine"] == TORCH_ENGINE:
        return ENGINE_TITLES[TORCH_ENGINE]
    return (
        "" if has_no_toggles(row) else toggles_name(str(row["compression"]), str(row["reduction"]))
    )


def place_name(model: object, np_: int, engine: str) -> str:
    """Name of a cell in a sentence: ``resnet18 on 2 ranks``, ``resnet18 on 2 ranks under DDP``."""
    under = f" under {ENGINE_TITLES[engine]}" if engine in OTHER_ENGINES else ""
    return f"{model} on {np_} rank{'s' if np_ > 1 else ''}{under}"


def short_name(model: object, np_: int, engine: str) -> str:
    """Name of a cell as the subject of a finding: ``resnet18 np=2``, ``resnet18 np=2 DDP``."""
    return f"{model} np={np_}" + (f" {ENGINE_TITLES[engine]}" if engine in OTHER_ENGINES else "")


def cell_label(row: CellRow) -> str:
    """Name of a cell: ``resnet18 on 2 ranks``, with its toggles or plain torch where it has."""
    place = place_name(row["model"], int(str(row["np"])), str(row["engine"]))
    return ", ".join(filter(None, (place, toggles_beside(row))))


def finished_launches(segments: pd.DataFrame) -> list[LaunchKey]:
    """The segments that ran to their end, or far enough to have a result."""
    done = segments.loc[is_finished(segments), LAUNCH]
    return list(as_text(done, LAUNCH).itertuples(index=False, name=None))


def is_finished(segments: pd.DataFrame) -> NDArray[np.bool_]:
    """Mask of the rows of SEGMENTS that ran to their end, or far enough to have a result."""
    far_enough = [Status.DONE, Status.PARTIAL, Status.RUNNING]
    return segments["status"].isin(far_enough).to_numpy(dtype=bool)


def launch_codes(table: pd.DataFrame) -> tuple[pd.Categorical, pd.Categorical, NDArray[np.int64]]:
    """The columns of ``LAUNCH``, and a number per launch, in the order of their categories."""
    passes, segments = (
        names if isinstance(names, pd.Categorical) else pd.Categorical(names)
        for names in (table[name].array for name in LAUNCH)
    )
    codes = passes.codes.astype(np.int64) * len(segments.categories) + segments.codes
    return passes, segments, codes


def rows_by_launch(table: pd.DataFrame) -> Iterator[tuple[LaunchKey, NDArray[np.intp]]]:
    """The positions of the rows of each launch in a table with the columns of ``LAUNCH``."""
    passes, segments, codes = launch_codes(table)
    rows = np.flatnonzero((passes.codes >= 0) & (segments.codes >= 0))
    rows = rows[np.argsort(codes[rows], kind="stable")]
    borders = (np.flatnonzero(np.diff(codes[rows])) + 1).tolist()
    ends = zip([0, *borders], [*borders, len(rows)], strict=True)
    launches = [rows[first:end] for first, end in ends if end]
    for own in sorted(launches, key=lambda own: int(own[0])):
        of_pass, of_segment = divmod(int(codes[own[0]]), len(segments.categories))
        yield (str(passes.categories[of_pass]), str(segments.categories[of_segment])), own

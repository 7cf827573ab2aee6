"""What a measured launch says about a step: gradients, when they are ready, work, cycles.

All times of a rank are on its own clock, from the begin of its backward or of its step: errors of
clocks between hosts do not enter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from hvdprof.analyze.ranks.arrivals import NOT_READY, arrival_cubes
from hvdprof.analyze.steps.step_work import StepWork
from hvdprof.model.arrays import Bools, Float64s, Int64s
from hvdprof.model.cell_key import LAUNCH, LaunchKey, rows_by_launch

_BYTES_OF = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
CYCLE_MARK = "CYCLE_START"


@dataclass(frozen=True, slots=True)
class Gradients:
    """The gradients of a model as they are sent, in any order.

    ``size_bytes`` [gradients] is what a rank sends per step, after compression; ``dtypes`` names
    the type of its elements, empty where unknown.
    """

    names: tuple[str, ...]
    size_bytes: Int64s
    dtypes: tuple[str, ...]

    @classmethod
    def of_sizes(
        cls, size_bytes: Sequence[int], names: Sequence[str] = (), dtype: str = "float32"
    ) -> "Gradients":
        """A model's gradients of one dtype without any run.

        Args:
            size_bytes: By gradient.
            names: Of the gradients; numbers where not given.
            dtype: Type of the elements.
        """
        numbered = tuple(names) or tuple(str(number) for number in range(len(size_bytes)))
        sizes = np.asarray(size_bytes, dtype=np.int64)
        return cls(numbered, sizes, (dtype,) * len(sizes))

    @property
    def dtype_codes(self) -> Int64s:
        """[gradients] Equal numbers for equal dtypes."""
        return np.unique(self.dtypes, return_inverse=True)[1].astype(np.int64)

    def as_fp16(self) -> "Gradients":
        """The same gradients under fp16 compression; those of unknown dtype count as float32."""
        widths = np.array([_BYTES_OF.get(dtype, 4) for dtype in self.dtypes])
        return replace(
            self,
            size_bytes=self.size_bytes * 2 // np.maximum(widths, 2),
            dtypes=("float16",) * len(self.names),
        )

    def ordered(self, places: Int64s) -> "Gradients":
        """The gradients in another order.

        Args:
            places: [gradients] The present place of each.
        """
        return Gradients(
            tuple(self.names[place] for place in places),
            self.size_bytes[places],
            tuple(self.dtypes[place] for place in places),
        )


@dataclass(frozen=True, slots=True)
class GradientTrace:
    """Steady steps of one launch; times in ns, arrays [steps, ranks] unless said otherwise.

    ``gradients`` are in the order of their mean ready times. ``ready`` [steps, gradients, ranks]
    is when the rank has each ready, from the begin of its backward. ``backward_begin`` is that
    begin, and ``arrived`` the time at which the rank blocks in ``synchronize()``, both from the
    end of its previous step. ``after`` is the time from its release to the end of the step.
    ``forward``, ``backward``, ``data``, ``optimizer`` and ``outside`` are its parts. ``step_times``
    [steps] are those of the job.
    """

    gradients: Gradients
    ranks: Int64s
    steps: Int64s
    ready: Float64s
    backward_begin: Float64s
    arrived: Float64s
    after: Float64s
    forward: Float64s
    backward: Float64s
    data: Float64s
    optimizer: Float64s
    outside: Float64s
    step_times: Float64s


@dataclass(frozen=True, slots=True)
class NoTrace:
    """A launch that does not say when its gradients are ready, and why."""

    reason: str


def gradient_trace(
    key: LaunchKey,
    work: StepWork | None,
    arrivals: pd.DataFrame,
    events: pd.DataFrame,
    gradients: Gradients | None,
) -> GradientTrace | NoTrace:
    """The steady steps of a launch in which every rank had every gradient ready once.

    Args:
        key: The launch.
        work: Its steady steps; None where no such step was recorded on all ranks.
        arrivals: ARRIVALS, of any launches.
        events: EVENTS, of which the recorder's ``backward`` pieces are used.
        gradients: What its ranks send; None where unknown.
    """
    if work is None:
        return NoTrace("no steady step was recorded on all ranks, or a wait may be unseen")
    if gradients is None:
        return NoTrace("the sizes of its gradients are not recorded")
    recorded = _of_launch(arrivals, key)
    if recorded.empty and len(work.ranks) == 1:
        return NoTrace("on 1 rank Horovod has no hooks, and the recorder saw no gradient")
    if recorded.empty:
        return NoTrace("the ranks recorded no gradient")
    place = {name: number for number, name in enumerate(gradients.names)}
    ready, complete = _ready_times(recorded, work, place)
    begin = _backward_begins(_of_launch(events, key), work)
    usable = complete & ~np.isnan(begin).any(axis=1)
    if not usable.any():
        return NoTrace("no steady step has every gradient ready on every rank")
    ready = ready[usable] - begin[usable][:, None, :]
    order = np.argsort(ready.mean(axis=(0, 2)), kind="stable")
    return GradientTrace(
        gradients=gradients.ordered(order),
        ranks=work.ranks,
        steps=work.steps[usable],
        ready=ready[:, order],
        backward_begin=(begin - work.begin)[usable],
        arrived=(work.arrived - work.begin)[usable],
        after=work.own_after_release[usable],
        **{part: work.parts[part][usable] for part in _PARTS},
        outside=(work.parts["outside"] + work.parts["before_update"])[usable],
        step_times=work.step_times[usable],
    )


_PARTS = ("forward", "backward", "data", "optimizer")


def recorded_gradients(
    key: LaunchKey, gradients: pd.DataFrame, uses: pd.DataFrame
) -> Gradients | None:
    """What the ranks of a launch send, None where that is not recorded.

    One rank sends nothing: of such a launch it is what several would send without compression.
    The dtype of a gradient is that in a timeline of any launch that sends as many bytes of it.

    Args:
        key: The launch.
        gradients: GRADIENTS, of any launches.
        uses: TENSOR_USES, of any launches.
    """
    sent = _of_launch(gradients, key).astype({"tensor": str})
    if sent.empty:
        return None
    names = {"tensor": str, "dtype": str}
    known = uses.loc[uses["size_bytes"].notna(), ["tensor", "size_bytes", "dtype"]].astype(names)
    dtype_of = {
        (name, int(size)): dtype
        for name, size, dtype in known.drop_duplicates().itertuples(index=False, name=None)
    }
    sent_bytes = sent["sent_bytes"].to_numpy(dtype=np.int64)
    sizes = np.where(sent_bytes > 0, sent_bytes, sent["size_bytes"].to_numpy(dtype=np.int64))
    tensors = tuple(sent["tensor"])
    dtypes = (
        dtype_of.get((name, int(size)), "") for name, size in zip(tensors, sizes, strict=True)
    )
    return Gradients(tensors, sizes, tuple(dtypes))


def assumed_ready(costs: Sequence[float], backward_ns: float) -> Float64s:
    """[gradients] Ready times from the begin of backward of a model that was not run, ns.

    Backward takes the gradients in the given order; each is ready when its share is done.

    Args:
        costs: What backward spends on each, in any unit, in the order of backward.
        backward_ns: Length of backward.
    """
    shares = np.cumsum(np.asarray(costs, dtype=np.float64))
    return np.asarray(shares / shares[-1] * backward_ns)


def _of_launch(table: pd.DataFrame, key: LaunchKey) -> pd.DataFrame:
    chosen = np.ones(len(table), dtype=np.bool_)
    for column, value in zip(LAUNCH, key, strict=True):
        chosen &= (table[column] == value).to_numpy(dtype=bool)
    return table[chosen]


def _ready_times(
    recorded: pd.DataFrame, work: StepWork, place: Mapping[str, int]
) -> tuple[Float64s, Bools]:
    """[steps, gradients, ranks] Ready times, and [steps] whether none is missing."""
    ready = np.full((len(work.steps), len(place), len(work.ranks)), np.nan)
    for cube in arrival_cubes(recorded):
        known = np.array([name in place for name in cube.tensors], dtype=np.bool_)
        columns = np.array([place[name] for name in cube.tensors[known]], dtype=np.int64)
        here = np.isin(cube.steps, work.steps)
        rows = np.searchsorted(work.steps, cube.steps[here])
        ranks = np.isin(cube.ranks, work.ranks)
        times = cube.ready[np.ix_(here, known, ranks)]
        places = np.ix_(rows, columns, np.searchsorted(work.ranks, cube.ranks[ranks]))
        ready[places] = np.where(times == NOT_READY, np.nan, times)
    return ready, ~np.isnan(ready).any(axis=(1, 2))


def _backward_begins(events: pd.DataFrame, work: StepWork) -> Float64s:
    """[steps, ranks] The begin of the last backward of each step; NaN where there is none."""
    begins = np.full((len(work.steps), len(work.ranks)), np.nan)
    pieces = events[
        (events["source"] == "recorder").to_numpy()
        & (events["activity"] == "backward").to_numpy()
        & events["step"].isin(work.steps).to_numpy()
        & events["rank"].isin(work.ranks).to_numpy()
    ].sort_values("start_ns")
    rows = np.searchsorted(work.steps, pieces["step"].to_numpy())
    columns = np.searchsorted(work.ranks, pieces["rank"].to_numpy())
    begins[rows, columns] = pieces["start_ns"].to_numpy()
    return begins


def cycle_marks(events: pd.DataFrame) -> dict[LaunchKey, Float64s]:
    """The starts of cycles of each launch whose timeline marks them, ascending, ns.

    Args:
        events: EVENTS.
    """
    marks = events.loc[(events["activity"] == CYCLE_MARK).to_numpy(), [*LAUNCH, "start_ns"]]
    return {
        key: np.sort(marks["start_ns"].to_numpy(dtype=np.float64)[rows])
        for key, rows in rows_by_launch(marks)
    }

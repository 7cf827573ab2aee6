"""The points of a step at which all ranks wait for each other, and own work before each of them.

Horovod and DDP have one per step: the reduction of all gradients. FSDP2 has several: the all-gather
of each group of parameters in forward and in backward, and the reduce-scatter of its gradients.
"""

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hvdprof.model.arrays import Bools

Times = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SyncPoints:
    """The synchronizations of a launch in their order; times in ns, arrays [points, ranks].

    Every step has ``per_step`` points, so the point of number ``place`` in step ``k`` is in row
    ``k * per_step + place``. ``begin`` is the release from the point before, or the end of the
    previous step. ``before`` is own time from there to the wait, waits at which not all ranks wait
    excluded. ``arrived`` is the start of the wait, ``submitted`` the time at which the rank
    submitted the collective: earlier than ``arrived`` where the rank computed meanwhile. ``tail``
    is the time from the last arrival to the release, ``after`` the time from there to the end of
    the step, 0 but at the last point of a step. ``follows`` [points] is false where the previous
    step is missing.
    """

    per_step: int
    follows: Bools
    begin: Times
    before: Times
    arrived: Times
    submitted: Times
    tail: Times
    after: Times

    @property
    def released(self) -> Times:
        """[points, ranks] End of each wait."""
        return np.asarray(self.arrived.max(axis=1, keepdims=True) + self.tail)

    def of_steps(self, times: Times) -> Times:
        """[steps, ...] The sums over the points of each step.

        Args:
            times: [points, ...]
        """
        if self.per_step == 1:
            return times
        shape = (len(times) // self.per_step, self.per_step, *times.shape[1:])
        return np.asarray(times.reshape(shape).sum(axis=1))

    def at(self, place: int, times: Times) -> Times:
        """[steps, ...] The times of the point of that number in each step; -1 is the last one."""
        return times[place % self.per_step :: self.per_step]

    def shifted(self, offsets: Times) -> "SyncPoints":
        """The points with ``offsets`` [ranks] added to all times of each rank on the clock."""
        arrived = self.arrived + offsets
        return dataclasses.replace(
            self,
            begin=self.begin + offsets,
            arrived=arrived,
            submitted=self.submitted + offsets,
            tail=self.released + offsets - arrived.max(axis=1, keepdims=True),
        )

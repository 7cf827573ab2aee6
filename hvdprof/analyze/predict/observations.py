"""Measured allreduces: ranks, hosts, payload and time.

Tested in ``tests/analyze/predict/test_algorithm_choice.py``.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Observations:
    """Measured allreduces, one per place of the arrays, in the order in which they ran.

    Attributes:
        num_ranks: Ranks of each.
        ranks_per_host: Ranks of the fullest host.
        size_bytes: Payloads.
        time_ns: Measured times, above 0.
        is_whole: True where the time includes Horovod's cycle and negotiation.
    """

    num_ranks: NDArray[np.int64]
    ranks_per_host: NDArray[np.int64]
    size_bytes: NDArray[np.float64]
    time_ns: NDArray[np.float64]
    is_whole: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.time_ns)

    def thinned(self, most: int) -> "Observations":
        """At most so many, spread evenly over the run."""
        if len(self) <= most:
            return self
        places = np.linspace(0, len(self) - 1, most).round().astype(np.int64)
        return Observations(
            self.num_ranks[places],
            self.ranks_per_host[places],
            self.size_bytes[places],
            self.time_ns[places],
            self.is_whole[places],
        )

"""The uses of tensors that reduce gradients, of which steps are inferred.

Tested in ``tests/ingest/timeline/meaning/test_step_inference.py``.
"""

from dataclasses import dataclass

from hvdprof.model.arrays import Int32s, Int64s


@dataclass(frozen=True, slots=True)
class Reductions:
    """The reductions of a file or of a part of one, in the order in which negotiation began.

    ``ready_us`` is where the negotiation began, ``end_us`` where the operation ended (where it
    began, if its end is not in the file); ``size_bytes`` is -1 where unknown.
    """

    tensor: Int32s
    ready_us: Int64s
    end_us: Int64s
    size_bytes: Int64s

    def __len__(self) -> int:
        """The number of reductions."""
        return len(self.tensor)

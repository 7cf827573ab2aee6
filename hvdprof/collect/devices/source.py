"""What is sampled: a source gives the values of its measures at one moment.

Tested in ``tests/collect/devices/test_rank_samples.py``.
"""

Values = dict[str, float]
"""By measure; of a count, what it has come to so far. What is unknown is not there."""


class Source:
    """What is sampled in one scope.

    Attributes:
        scope: ``rank``, ``host`` or ``device``.
        device: The name of a GPU; empty for others, and before it is known.
    """

    scope = ""
    device = ""

    def read(self) -> Values:
        """The values now; raises nothing that the kernel or a driver may cause."""
        return {}

    def close(self) -> None:
        """Give back what it holds."""

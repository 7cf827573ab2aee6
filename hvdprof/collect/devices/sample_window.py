"""What is sampled: a source with the values of its measures, summed up over whiles."""

import statistics

from hvdprof.rundir.recording.sample_format import MEASURES, SamplesLine, Summary

Values = dict[str, float]
"""By measure; of a count, what it has come to so far. What is unknown is not there."""

SHORTEST_NS, LONGEST_NS, SHARE_OF_TIME = 1_000_000_000, 30_000_000_000, 16
"""Length of a window: a share of the time so far, within bounds; 10 s after three minutes."""

LONGEST_WATCHED_NS = 5_000_000_000
"""The same while ``hvdprof watch`` follows the job."""

SHORTEST_GAP_S = 0.09
"""Within less, a count of jiffies says little: the last sample of a recording may come so soon."""


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


class SampleWindow:
    """The samples of one source since its last line."""

    def __init__(self, source: Source, now_ns: int) -> None:
        self._source = source
        self._begin_ns = now_ns
        self.begin(now_ns)

    def begin(self, now_ns: int) -> None:
        """Begin at this time; what has grown since the last sample is left out."""
        self._start_ns = self._before_ns = now_ns
        self._before = self._source.read()
        self._values: dict[str, list[float]] = {}

    def sample(self, now_ns: int) -> None:
        """Take one sample."""
        passed_s = (now_ns - self._before_ns) / 1e9
        if passed_s < SHORTEST_GAP_S:
            return
        values = self._source.read()
        if not self._values:
            # A source may have no values for a while.
            self._start_ns = self._before_ns
        for name, value in values.items():
            if not MEASURES[name].is_count:
                self._values.setdefault(name, []).append(value)
            elif name in self._before:
                # Counters of hosts and drivers begin anew at times.
                growth = max(value - self._before[name], 0.0)
                self._values.setdefault(name, []).append(growth / passed_s)
        self._before, self._before_ns = values, now_ns

    def line(
        self, now_ns: int, longest_ns: int = LONGEST_NS, *, is_last: bool = False
    ) -> SamplesLine | None:
        """What the window holds, once it is long enough; a new one begins then."""
        goal_ns = min(max((now_ns - self._begin_ns) // SHARE_OF_TIME, SHORTEST_NS), longest_ns)
        if not self._values or (now_ns - self._start_ns < goal_ns and not is_last):
            return None
        line: SamplesLine = {
            "kind": "samples",
            "scope": self._source.scope,
            "device": self._source.device,
            "start_ns": self._start_ns,
            "end_ns": now_ns,
            "measures": [_summary(name, values) for name, values in self._values.items()],
        }
        self._start_ns, self._values = now_ns, {}
        return line

    def close(self) -> None:
        """Close the source."""
        self._source.close()


def _summary(name: str, values: list[float]) -> Summary:
    middle = statistics.median(values)
    mean, low, middle, high = map(
        _short, (statistics.fmean(values), min(values), middle, max(values))
    )
    return name, len(values), mean, low, middle, high


def _short(value: float) -> float:
    """With the digits that matter: files stay small."""
    return float(f"{value:.6g}")

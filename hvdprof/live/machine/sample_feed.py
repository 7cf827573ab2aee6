"""What ranks have sampled of their machine since the last look, window by window."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from hvdprof.live.file_tail import FileTail
from hvdprof.live.rank_feed import RankFeed
from hvdprof.rundir.json_codec import DAMAGE
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.recording.recorder_codec import from_bytes
from hvdprof.rundir.recording.sample_format import MEASURES, SamplesLine

_LOOK_S = 5.0
_MOST = 1e18


@dataclass(frozen=True, slots=True)
class Sampled:
    """A window of a process, host or GPU: seconds of the host's wall clock, means by measure."""

    rank: int
    scope: str
    begin_s: float
    end_s: float
    means: Mapping[str, float]


class SampleFeed:
    """Follows the samples of all ranks.

    Args:
        folder: The folder of the recorder files.
    """

    def __init__(self, folder: Path) -> None:
        self._paths = PassPaths(folder.parent)
        self._folder = folder
        self._tails: dict[int, FileTail] = {}
        self._next_s = 0.0

    def look(self, feeds: Mapping[int, RankFeed], now_s: float) -> list[Sampled]:
        """The windows that were added; damaged lines are reported by ``analyze``.

        Args:
            feeds: The recordings of the ranks, which know what makes a time one of the wall clock.
            now_s: The clock of the watcher.
        """
        is_due = now_s >= self._next_s
        if is_due:
            self._next_s = now_s + _LOOK_S
        found = []
        for rank, feed in feeds.items():
            tail = self._tails.get(rank)
            if tail is None:
                path = self._folder / self._paths.samples_file(rank).name
                tail = self._tails[rank] = FileTail(path)
            # Its header says what makes a time one of the wall clock.
            if not feed.size or not (is_due or tail.is_behind):
                continue
            for text in tail.lines():
                try:
                    found.append(_sampled(rank, text, feed.wall_minus_monotonic_ns))
                except (*DAMAGE, RecursionError):
                    continue
        return found


def _sampled(rank: int, text: bytes, offset_ns: int) -> Sampled:
    line = cast(SamplesLine, from_bytes(text))
    begin_s, end_s = ((int(line[name]) + offset_ns) / 1e9 for name in ("start_ns", "end_ns"))
    means = {str(name): float(mean) for name, _, mean, *_ in line["measures"] if name in MEASURES}
    if not 0 < end_s - begin_s < _MOST or not all(abs(mean) < _MOST for mean in means.values()):
        raise ValueError("a window takes time, and measures are finite")
    return Sampled(rank, str(line["scope"]), begin_s, end_s, means)

"""The line of code of a named rank that its samples show more often than those of another rank."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path, PurePath

from hvdprof.live.file_tail import FileTail
from hvdprof.plain_text import printable
from hvdprof.rundir.json_codec import DAMAGE
from hvdprof.rundir.recording.line_format import SampledLine
from hvdprof.rundir.recording.recorder_codec import from_bytes

LATEST_NS = 120_000_000_000
LEAST_SAMPLES = 5
_LEAST_SHARE = 0.3
"""Of the samples of the phase that the rank has more than the other."""

_Place = tuple[str, int, str]


def sampled_place(folder: Path, rank: int, other: int, phase: str) -> str:
    """``transforms.py:41 (crop)``; empty where there are too few samples or no line stands out.

    Args:
        folder: The folder of the recorder files.
        rank: The named rank.
        other: The rank that it is held against.
        phase: The phase in which it is late. Data loader workers are preferred in ``data``: there
            the rank itself only waits for them.
    """
    if phase == "data":
        paths = [sorted(folder.glob(f"lines-{one}-worker-*.jsonl")) for one in (rank, other)]
        found = _longer(*(_samples(files, "") for files in paths))
        if found:
            return found
    own, others = (_samples([folder / f"lines-{one}.jsonl"], phase) for one in (rank, other))
    return _longer(own, others)


def _samples(paths: Iterable[Path], phase: str) -> tuple[Counter[_Place], float]:
    """Samples of each line in the latest two minutes, and the seconds that they are of."""
    counts: Counter[_Place] = Counter()
    spans: list[tuple[int, int]] = []
    for path in paths:
        windows: list[tuple[int, int, Counter[_Place]]] = []
        places: dict[int, _Place] = {}
        tail = FileTail(path)
        while lines := tail.lines():
            for text in lines:
                try:
                    line = from_bytes(text)
                    if line["kind"] == "lines":
                        _take(line, phase, places, windows)
                except (*DAMAGE, RecursionError):
                    # Only a name is lost: ``analyze`` counts what is damaged.
                    continue
        last = max((end for _, end, _ in windows), default=0)
        for start, end, own in windows:
            if end > last - LATEST_NS:
                counts.update(own)
                spans.append((start, end))
    return counts, sum(end - start for start, end in spans) / 1e9


def _take(
    line: SampledLine,
    phase: str,
    places: dict[int, _Place],
    windows: list[tuple[int, int, Counter[_Place]]],
) -> None:
    for number, file, row, function, _ in line["places"]:
        places[int(number)] = (str(file), int(row), str(function))
    names = [str(one[0]) for one in line["phases"]]
    own: Counter[_Place] = Counter()
    for index, number, samples in line["counts"]:
        if number in places and phase in ("", names[index]):
            own[places[number]] += int(samples)
    windows.append((int(line["start_ns"]), int(line["end_ns"]), own))


def _longer(own: tuple[Counter[_Place], float], other: tuple[Counter[_Place], float]) -> str:
    counts, span_s = own
    if not counts or not span_s:
        return ""
    others, of_others_s = other
    more = {
        place: number / span_s - (others[place] / of_others_s if of_others_s else 0.0)
        for place, number in counts.items()
    }
    file, row, function = place = max(more, key=more.__getitem__)
    positive = sum(rate for rate in more.values() if rate > 0)
    if counts[place] < LEAST_SAMPLES or positive <= 0 or more[place] < _LEAST_SHARE * positive:
        return ""
    return printable(f"{PurePath(file).name}:{row} ({function})")

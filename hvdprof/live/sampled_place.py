"""The line of code of a named rank that its samples show more often than those of another rank."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from hvdprof.collect.steps.step_marks import BEFORE_UPDATE_PHASE
from hvdprof.live.rank_feed import FileTail
from hvdprof.plain_text import printable
from hvdprof.rundir.json_codec import DAMAGE
from hvdprof.rundir.recording.line_format import OUTSIDE_PHASES, SampledLine
from hvdprof.rundir.recording.recorder_codec import from_bytes

LATEST_NS = 120_000_000_000
LEAST_SAMPLES = 5
_LEAST_SHARE = 0.3
"""Of the samples of the phase that the rank has more than the other."""

_Place = tuple[str, int, str]


def sampled_place(folder: Path, rank: int, other: int, phase: str, late_ns: float) -> str:
    """``transforms.py:41 (crop)``; empty where there are too few samples or no line stands out.

    A sample waits until the training thread yields the interpreter's lock, up to 5 ms in a loop of
    Python code: a shorter delay ends before it, and the sample shows the line behind it.

    Args:
        folder: The folder of the recorder files.
        rank: The named rank.
        other: The rank that it is held against.
        late_ns: By how much it is late per step.
        phase: The phase in which it is late. Data loader workers are preferred in ``data``: there
            the rank itself only waits for them.
    """
    if phase == "data":
        paths = [sorted(folder.glob(f"lines-{one}-worker-*.jsonl")) for one in (rank, other)]
        found = _longer(*(_samples(files, "") for files in paths))
        if found:
            return found
    own, others = (_samples([folder / f"lines-{one}.jsonl"], phase) for one in (rank, other))
    return "" if own.delay_ns > late_ns / 2 else _longer(own, others)


@dataclass(frozen=True, slots=True)
class MostSampled:
    """The line that most samples of a phase show, and its share of their ``number``.

    ``phase`` is empty where too few fell into the phase, and all samples count; ``place`` is empty
    where no line of the script is seen. ``span_s`` is the time of the samples, ``workers`` the
    number of workers that took them, 0 for the rank itself.
    """

    place: str
    share: float
    number: int
    phase: str
    span_s: float
    workers: int = 0


def most_sampled(path: Path, phase: str, workers: Sequence[Path] = ()) -> MostSampled | None:
    """What a rank has answered, from the file of it; None before that is whole.

    Args:
        path: The file.
        phase: The phase in which the rank is late.
        workers: Those of its workers. In ``data`` the rank itself only waits for them.
    """
    # While it runs, a rank does not know this one: it is what lies before an update is made.
    seen_as = OUTSIDE_PHASES if phase == BEFORE_UPDATE_PHASE else phase
    found = _samples([path], seen_as)
    if seen_as and found.number < LEAST_SAMPLES:
        phase, found = "", _samples([path], "")
    if not found.span_s:
        return None
    span_s, num_workers = found.span_s, 0
    of_workers = [_samples([one], "") for one in workers if phase == "data"]
    if of_workers:
        if not all(one.span_s for one in of_workers):
            # They look for what is asked in the same two seconds, and take as long.
            return None
        num_workers = len(of_workers)
        found = _samples(workers, "")
    (place, number), *_ = [*found.counts.most_common(1), (("", 0, ""), 0)]
    name = _name(place) if place[0] else ""
    share = number / max(found.number, 1)
    return MostSampled(name, share, found.number, phase, span_s, num_workers)


@dataclass(slots=True)
class _Samples:
    """Samples of each line, their number, the seconds that they are of, their mean delay, ns."""

    counts: Counter[_Place] = field(default_factory=Counter)
    number: int = 0
    span_s: float = 0.0
    delay_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class _Window:
    start_ns: int
    end_ns: int
    counts: Counter[_Place]
    number: int
    delays_ns: int


def _samples(paths: Iterable[Path], phase: str) -> _Samples:
    """What the latest two minutes of some files hold, of one phase or of all."""
    found, delays_ns = _Samples(), 0
    for path in paths:
        windows: list[_Window] = []
        places: dict[int, _Place] = {}
        tail = FileTail(path)
        while lines := tail.lines():
            for text in lines:
                try:
                    line = from_bytes(text)
                    if line["kind"] == "lines":
                        windows.append(_window(line, phase, places))
                except (*DAMAGE, RecursionError):
                    # Only a name is lost: ``analyze`` counts what is damaged.
                    continue
        last = max((window.end_ns for window in windows), default=0)
        for window in windows:
            if window.end_ns > last - LATEST_NS:
                found.counts.update(window.counts)
                found.span_s += (window.end_ns - window.start_ns) / 1e9
                found.number += window.number
                delays_ns += window.delays_ns
    found.delay_ns = delays_ns / found.number if found.number else 0.0
    return found


def _window(line: SampledLine, phase: str, places: dict[int, _Place]) -> _Window:
    for number, file, row, function, *_ in line["places"]:
        places[int(number)] = (str(file), int(row), str(function))
    chosen = [phase in ("", str(one[0])) for one in line["phases"]]
    own: Counter[_Place] = Counter()
    for index, number, samples in line["counts"]:
        if number in places and chosen[index]:
            own[places[number]] += int(samples)
    of_phase = [one for one, is_own in zip(line["phases"], chosen, strict=True) if is_own]
    return _Window(
        int(line["start_ns"]),
        int(line["end_ns"]),
        own,
        sum(int(one[1]) for one in of_phase),
        sum(int(one[4]) for one in of_phase),
    )


def _longer(own: _Samples, other: _Samples) -> str:
    if not own.counts or not own.span_s:
        return ""
    more = {
        place: number / own.span_s - (other.counts[place] / other.span_s if other.span_s else 0.0)
        for place, number in own.counts.items()
    }
    place = max(more, key=more.__getitem__)
    positive = sum(rate for rate in more.values() if rate > 0)
    too_few = own.counts[place] < LEAST_SAMPLES
    if too_few or positive <= 0 or more[place] < _LEAST_SHARE * positive:
        return ""
    return _name(place)


def _name(place: _Place) -> str:
    file, row, function = place
    return printable(f"{PurePath(file).name}:{row} ({function})")

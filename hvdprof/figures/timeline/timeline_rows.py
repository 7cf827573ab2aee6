"""The rows of a timeline from the top: groups of ranks, single ranks, counters, Horovod's lanes."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from hvdprof import units
from hvdprof.figures.timeline.timeline_lanes import CATEGORIES, LaneKind, Lanes
from hvdprof.figures.timeline.viewport import Ints

MOST_UNFOLDED = 16
"""More ranks than these are folded to bands until they are opened."""

ALL_RANKS = "all"
"""The group of all ranks, in ``RowChoice.opened``."""

HOROVOD = "horovod-lanes"
"""The lanes of Horovod, in ``RowChoice.opened``."""

_MOST_LANES = 512
_MOST_PINS = 12
_LAST_DIVIDER = re.compile(r"^.*[./:_]", re.DOTALL)


class RowKind(StrEnum):
    """What a row shows."""

    GROUP = "group"
    LANE = "lane"
    BANDS = "bands"
    BYTES = "bytes"
    BUSBW = "busbw"


@dataclass(frozen=True, slots=True)
class RowChoice:
    """What of the lanes is asked for.

    Attributes:
        tensor: Part of the name of the tensor lanes to show, in any case; empty for all.
        ranks: Ranks to show, such as ``0-3,7``; empty for all.
        opened: Groups that are open where many ranks are folded: ``all``, and names of hosts.
        pins: Numbers of lanes that are shown on top.
        hidden: Categories that are not drawn.
        folded: Why Horovod's lanes are folded until they are opened; empty where they are not.
    """

    tensor: str = ""
    ranks: str = ""
    opened: frozenset[str] = frozenset()
    pins: tuple[int, ...] = ()
    hidden: frozenset[str] = frozenset()
    folded: str = ""

    @property
    def is_drawn(self) -> list[bool]:
        """For each of the categories, whether it is drawn."""
        return [category not in self.hidden for category in CATEGORIES]


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its name as shown and in full.

    ``lane`` is the number of its lane, -1 without one; ``ranks`` those of its group.
    ``opens`` is what opens or folds it in ``RowChoice.opened``, empty where nothing does.
    """

    kind: RowKind
    name: str
    full: str
    lane: int = -1
    ranks: tuple[int, ...] = ()
    opens: str = ""
    is_open: bool = False
    is_pinned: bool = False


def timeline_rows(lanes: Lanes, choice: RowChoice) -> tuple[tuple[Row, ...], int]:
    """The rows from the top, at most 512 with lanes, and the number of lanes left out for that."""
    rows = [*_pinned(lanes, choice), *_rank_rows(lanes, choice), *_below(lanes, choice)]
    with_lane = [row for row in rows if row.lane >= 0]
    too_many = len(with_lane) - _MOST_LANES
    if too_many <= 0:
        return tuple(rows), 0
    dropped = set(map(id, with_lane[_MOST_LANES:]))
    return tuple(row for row in rows if id(row) not in dropped), too_many


def lanes_of(rows: Sequence[Row]) -> Ints:
    """Numbers of the lanes of those rows that have one, from the top."""
    return np.array([row.lane for row in rows if row.lane >= 0], dtype=np.int64)


def missed_filters(rows: Sequence[Row], lanes: Lanes, choice: RowChoice) -> list[str]:
    """A sentence per filter that nothing fits: an unknown rank, or part of no tensor's name."""
    missed = []
    if choice.ranks and lanes.num_ranks and not len(_ranks_named(choice.ranks, lanes.ranks)):
        missed.append(f'No rank of this pass is in "{choice.ranks}": all are shown.')
    has_tensor = any(row.lane >= lanes.num_ranks and not row.is_pinned for row in rows)
    if choice.tensor and lanes.kind is LaneKind.TENSORS and not has_tensor:
        missed.append(f'No tensor of this pass contains "{choice.tensor}".')
    return missed


def ranks_in(text: str, ranks: Ints) -> Ints:
    """The ranks that a text such as ``0-3,7`` names; all of them where it names none."""
    chosen = _ranks_named(text, ranks)
    return chosen if len(chosen) else ranks


def _ranks_named(text: str, ranks: Ints) -> Ints:
    wanted: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})(?:\s*-\s*(\d{1,6}))?\s*", part)
        if match:
            first = int(match[1])
            last = int(match[2]) if match[2] else first
            wanted.update(int(rank) for rank in ranks if first <= rank <= last)
    return np.array([rank for rank in ranks if int(rank) in wanted], dtype=np.int64)


def dropped_prefix(names: Sequence[str]) -> str:
    """What all names begin with, up to a divider; empty for fewer than two names."""
    if len(names) < 2:
        return ""
    # What the first and the last name in order share, all between them share.
    low, high = min(names), max(names)
    same = next(
        (at for at, (one, other) in enumerate(zip(low, high, strict=False)) if one != other),
        len(low),
    )
    match = _LAST_DIVIDER.match(low[:same])
    return match[0] if match else ""


def _pinned(lanes: Lanes, choice: RowChoice) -> Iterator[Row]:
    for lane in dict.fromkeys(choice.pins[:_MOST_PINS]):
        if 0 <= lane < len(lanes.names):
            name = lanes.names[lane]
            yield Row(RowKind.LANE, name, name, lane=lane, is_pinned=True)


def _rank_rows(lanes: Lanes, choice: RowChoice) -> Iterator[Row]:
    chosen = ranks_in(choice.ranks, lanes.ranks)
    if not len(chosen):
        return
    hosts = {int(rank): host for rank, host in zip(lanes.ranks, lanes.hosts, strict=True)}
    by_host: dict[str, list[int]] = {}
    for rank in chosen:
        by_host.setdefault(hosts[int(rank)], []).append(int(rank))
    if len(chosen) <= MOST_UNFOLDED:
        for host, ranks in by_host.items():
            if len(by_host) > 1:
                name = f"{host or 'host unknown'}: {units.counted(len(ranks), 'rank')}"
                yield Row(RowKind.GROUP, name, name, ranks=tuple(ranks))
            yield from _single(lanes, ranks)
        return
    is_open = ALL_RANKS in choice.opened
    name = f"{units.counted(len(chosen), 'rank')} on {units.counted(len(by_host), 'host')}"
    yield _bands(name, chosen.tolist(), ALL_RANKS, is_open=is_open)
    if not is_open:
        yield from _extremes(lanes, chosen)
        return
    for host, ranks in by_host.items():
        opens = host or "unknown"
        is_host_open = opens in choice.opened or len(by_host) == 1
        if len(by_host) > 1:
            name = f"{opens}: {units.counted(len(ranks), 'rank')}"
            yield _bands(name, ranks, opens, is_open=is_host_open)
        if is_host_open:
            yield from _single(lanes, ranks)


def _bands(name: str, ranks: Sequence[int], opens: str, *, is_open: bool) -> Row:
    full = f"{name}: own work per step, the median, 25 to 75 % and 5 to 95 % of the ranks"
    return Row(RowKind.BANDS, name, full, ranks=tuple(ranks), opens=opens, is_open=is_open)


def _extremes(lanes: Lanes, ranks: Ints) -> Iterator[Row]:
    for rank, word in lanes.steps.extremes(ranks):
        yield from _single(lanes, [rank], word)


def _single(lanes: Lanes, ranks: Sequence[int], word: str = "") -> Iterator[Row]:
    for rank in ranks:
        lane = int(np.searchsorted(lanes.ranks, rank))
        name = f"rank {rank}{word and f' ({word})'}"
        yield Row(RowKind.LANE, name, lanes.names[lane], lane=lane)


def _below(lanes: Lanes, choice: RowChoice) -> Iterator[Row]:
    names = lanes.names[lanes.num_ranks :]
    if not names:
        return
    if choice.folded:
        is_open = HOROVOD in choice.opened
        head = f"{'▾' if is_open else '▸'} Horovod: {choice.folded}"
        yield Row(RowKind.GROUP, head, head, opens=HOROVOD, is_open=is_open)
        if not is_open:
            return
    yield Row(
        RowKind.BYTES, "bytes in flight", "Payload of the executions that run: mean of each bin"
    )
    yield Row(
        RowKind.BUSBW, "busbw", "Bus bandwidth of the executions that run, GB/s: mean of each bin"
    )
    if lanes.kind is LaneKind.EXECUTIONS:
        for number, name in enumerate(names):
            yield Row(RowKind.LANE, name, f"Horovod: {name}", lane=lanes.num_ranks + number)
        return
    wanted = choice.tensor.casefold()
    found = [place for place, name in enumerate(names) if wanted in name.casefold()]
    prefix = dropped_prefix([names[place] for place in found])
    head = units.counted(len(found), "tensor") + (f": {prefix}…" if prefix else "")
    yield Row(RowKind.GROUP, head, f"Tensors; their names begin with {prefix}" if prefix else head)
    for place in found:
        name = names[place]
        yield Row(RowKind.LANE, name[len(prefix) :] or name, name, lane=lanes.num_ranks + place)

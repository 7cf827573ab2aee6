"""Ranks that record nothing: one while others do, or all of them; and stalls that were diagnosed.

Under ``hvdprof run`` and ``bench`` the launching side finds out who waits for whom in a hang
(``launch.diagnose.stall_watch``) and writes it down: that is reported then. Elsewhere only the
silence is known.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hvdprof import units
from hvdprof.live import snapshot
from hvdprof.live.job_state import Change
from hvdprof.live.rank_feed import FileTail
from hvdprof.plain_text import printable
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.json_codec import DAMAGE, parse_json
from hvdprof.rundir.recording.stall_format import EventKind, EventState, StallLine, StallOverLine

LEAST_SILENT_S = 30.0
_TIMES_USUAL = 5.0


@dataclass(slots=True)
class Silence:
    """Follows when each rank was heard last; times on one clock of the watcher, seconds."""

    _heard_s: dict[int, float] = field(default_factory=dict)
    _longest_gap_s: float = 0.0
    silent: dict[int, float] = field(default_factory=dict)
    """Ranks that are silent while others are not, and since when."""
    _all_since_s: float | None = None

    def note(self, rank: int, now_s: float, *, is_new: bool) -> None:
        """Note that a rank is there, and whether it has recorded something new."""
        before_s = self._heard_s.setdefault(rank, now_s)
        if is_new:
            # A rank's own usual gap: windows of a job without a watcher take up to 10 s.
            gap_s = now_s - before_s
            if rank not in self.silent and self._all_since_s is None and gap_s < LEAST_SILENT_S:
                self._longest_gap_s = max(self._longest_gap_s, gap_s)
            self._heard_s[rank] = now_s

    def forget(self, rank: int) -> None:
        """A rank has ended its recording: it is not silent."""
        self._heard_s.pop(rank, None)

    def look(self, now_s: float, wall_s: float, steps: Mapping[int, int]) -> Iterator[Change]:
        """What has changed.

        Args:
            now_s: As in ``note``.
            wall_s: The wall clock.
            steps: The last step of each rank.
        """
        limit_s = max(LEAST_SILENT_S, _TIMES_USUAL * self._longest_gap_s)
        late = {rank: at for rank, at in self._heard_s.items() if now_s - at > limit_s}
        offset_s = wall_s - now_s
        if late and len(late) == len(self._heard_s):
            # Imports and compilation come before the first step: that is no hang.
            if self._all_since_s is None and max(steps.values(), default=-1) >= 0:
                self._all_since_s = max(late.values())
                yield self._all_silent(now_s, offset_s, max(steps.values(), default=-1))
            return
        if self._all_since_s is not None:
            say = snapshot.progress_again if self._heard_s else snapshot.ended
            text = say(now_s - self._all_since_s)
            self._all_since_s = None
            yield Change(
                kind=EventKind.NO_PROGRESS, state=EventState.OVER, since_s=wall_s, text=text
            )
        latest_s = max(self._heard_s.values(), default=now_s)
        for rank, at in late.items():
            # In a hang the windows of some ranks end before those of others.
            if rank not in self.silent and latest_s - at > limit_s / 2:
                self.silent[rank] = at
                text = snapshot.rank_silent([rank], now_s - at)
                yield _of_rank(rank, EventState.BEGUN, at + offset_s, text, steps)
        for rank in [rank for rank in self.silent if rank not in late]:
            at = self.silent.pop(rank)
            say_rank = snapshot.rank_back if rank in self._heard_s else snapshot.rank_ended
            text = say_rank([rank], now_s - at)
            yield _of_rank(rank, EventState.OVER, wall_s, text, steps)

    def _all_silent(self, now_s: float, offset_s: float, step: int) -> Change:
        since_s = self._all_since_s or now_s
        text = snapshot.no_progress(now_s - since_s, step)
        return Change(
            kind=EventKind.NO_PROGRESS,
            state=EventState.BEGUN,
            since_s=since_s + offset_s,
            text=text,
            step=step,
        )


def _of_rank(
    rank: int, state: EventState, since_s: float, text: str, steps: Mapping[int, int]
) -> Change:
    return Change(
        kind=EventKind.RANK_SILENT,
        state=state,
        since_s=since_s,
        text=text,
        step=steps.get(rank, -1),
        ranks=(rank,),
    )


class Stalls:
    """Follows the stalls that the launching side writes down."""

    def __init__(self, path: Path) -> None:
        self._tail = FileTail(path)
        self._begun: dict[int, Change] = {}

    def look(self) -> Iterator[Change]:
        """Stalls that were found, or are over; damaged lines are reported by ``analyze``."""
        for text in self._tail.lines():
            try:
                line = parse_json(text)
                yield self._stall(line) if line["kind"] == "stall" else self._over(line)
            except DAMAGE:
                continue

    def _stall(self, line: StallLine) -> Change:
        late = tuple(int(one["rank"]) for one in line["late"])
        waiting = ranks_named(int(rank) for rank in line["waiting"])
        time_s, waited_s = line["time_ns"] / 1e9, float(line["waited_s"])
        verb = "waits" if len(line["waiting"]) == 1 else "wait"
        whom = f" for {ranks_named(late)}" if late else ""
        text = (
            f"{waiting[:1].upper()}{waiting[1:]} {verb}{whom} in step {int(line['step'])}, "
            f"for {units.duration(waited_s)} so far."
        )
        change = Change(
            kind=EventKind.HANG,
            state=EventState.BEGUN,
            since_s=time_s - waited_s,
            text=text,
            segment=printable(str(line["segment"])),
            step=int(line["step"]),
            ranks=late,
            phase=printable(str(line["late"][0]["phase"])) if len(late) == 1 else "",
        )
        self._begun[int(line["number"])] = change
        return change

    def _over(self, line: StallOverLine) -> Change:
        begun = self._begun[int(line["number"])]
        how = "The job ended" if line.get("at_end") else "It is over"
        return Change(
            kind=EventKind.HANG,
            state=EventState.OVER,
            since_s=begun.since_s + float(line["lasted_s"]),
            text=f"{how}, after {units.duration(float(line['lasted_s']))}.",
            segment=begun.segment,
            step=begun.step,
            ranks=begun.ranks,
        )

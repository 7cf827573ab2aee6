"""Launches that are resident together, from their start to their end.

All start at once and wait stopped at their gates. Then they take turns, model by model, so that a
drift of the machine falls on all alike and a start is paid once for many turns.
"""

import contextlib
from collections.abc import Callable, Sequence

from hvdprof.launch.processes.interruption import to_its_end
from hvdprof.launch.processes.launch_process import LaunchOutcome
from hvdprof.launch.run.resident_launch import ResidentLaunch

_GATHERING_S = 0.05


def run_residents(
    launches: Sequence[ResidentLaunch], fits: Callable[[int], bool] | None = None
) -> list[LaunchOutcome]:
    """Run launches in turns to their end; every process of them is gone afterwards.

    A launch that fails or hangs leaves the others to their turns.

    Args:
        launches: The launches, about to start.
        fits: Asked with the memory of the first one, before the others start; where it says no,
            or the first one ended without waiting for a turn, they run one after the other.

    Raises:
        EnvironmentNotReadyError: A launcher could not be started.
        StorageError: The files of a launch cannot be written.
        InterruptedRunError: Ctrl-C or SIGTERM.
    """
    with contextlib.ExitStack() as ends:
        # Each listens already: also where an earlier one cannot start.
        for launch in launches:
            ends.callback(to_its_end, launch.end)
        first, *others = launches
        first.start()
        if others and not _fits(first, fits):
            _run_alone(first)
            for launch in others:
                launch.start()
                _run_alone(launch)
            return [launch.outcome for launch in launches]
        for launch in others:
            launch.start()
        _gather(launches)
        while together := _next_together(launches):
            _take_turns(together)
            # Not before: what follows takes the processor time that belongs to a turn.
            for launch in together:
                launch.leave_segment()
            _gather(launches)
    return [launch.outcome for launch in launches]


def _fits(first: ResidentLaunch, fits: Callable[[int], bool] | None) -> bool:
    if fits is None:
        return True
    _gather([first])
    # Others like it would train at the same time.
    return not first.never_stood and fits(first.memory_bytes)


def _run_alone(launch: ResidentLaunch) -> None:
    launch.run_alone()
    _gather([launch])


def _next_together(launches: Sequence[ResidentLaunch]) -> list[ResidentLaunch]:
    """The launches that stand before a segment of the same model; none when all are measured.

    No other launch has still to reach that model.
    """
    standing = [launch for launch in launches if launch.models]
    for first in standing:
        model = first.models[0]
        if not any(model in launch.models[1:] and launch.models[0] != model for launch in standing):
            return [launch for launch in standing if launch.models[0] == model]
    # Launches that train models in different orders have none to wait for.
    return standing[:1]


def _take_turns(launches: Sequence[ResidentLaunch]) -> None:
    """Turns until every launch has been measured long enough.

    Every second round runs backwards (A B B A).
    """
    round_number = 0
    while waiting := [launch for launch in launches if launch.needs_turn]:
        for launch in waiting if round_number % 2 == 0 else reversed(waiting):
            launch.take_turn(round_number)
        round_number += 1


def _gather(launches: Sequence[ResidentLaunch]) -> None:
    """Wait until every launch stands at its gate or is over."""
    while waiting := [launch for launch in launches if not launch.arrives(0.0)]:
        waiting[0].arrives(_GATHERING_S)

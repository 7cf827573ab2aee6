"""Several runs at once, a pass of each by turns, so that the machine is the same for all."""

from collections.abc import Callable, Collection, Sequence

from hvdprof.launch.run.sweep import Sweep, opened_sweeps


def run_interleaved(sweeps: Sequence[Sweep], is_enough: Callable[[int], bool]) -> None:
    """Run the passes of several sweeps by turns, every second round backwards (A B B A).

    The first pass of each, then the second of each in the reverse order: the passes of the same
    cell and repeat are neighbours. A sweep whose passes fail does not end the others.

    Args:
        sweeps: Sweeps of the same design.
        is_enough: Asked after every repeat of all, with its number; the planned rest is dropped
            where it says so.

    Raises:
        UsageError: Another process is measuring into one of the run directories.
        InterruptedRunError: Ctrl-C or SIGTERM; what was measured is kept.
        StorageError: The disk is full; what was measured is kept.
    """
    with opened_sweeps(sweeps):
        order, repeat = list(sweeps), 1
        # A sum: all of them advance, also behind one that has nothing left.
        while sum(sweep.advance() for sweep in order):
            order.reverse()
            left = [sweep.upcoming_repeat for sweep in sweeps]
            upcoming = min((number for number in left if number is not None), default=repeat)
            if upcoming > repeat:
                # One that has nothing left has given up: no more pairs can come.
                if None in left or is_enough(repeat):
                    for sweep in sweeps:
                        sweep.drop_rest()
                repeat = upcoming


def run_race(sweeps: Sequence[Sweep], dropped: Callable[[int], Collection[Sweep]]) -> None:
    """Run the repeats of several sweeps in rounds, every second round backwards (A B C, C B A).

    A sweep whose passes fail does not end the others. The race ends where none has a pass left.

    Args:
        sweeps: Sweeps of one number of ranks each, without a trace.
        dropped: Asked after every round, with its number: the sweeps that run no more.

    Raises:
        UsageError: Another process is measuring into one of the run directories.
        InterruptedRunError: Ctrl-C or SIGTERM; what was measured is kept.
        StorageError: The disk is full; what was measured is kept.
    """
    with opened_sweeps(sweeps):
        racing, number = list(sweeps), 1
        while racing:
            for sweep in racing if number % 2 else reversed(racing):
                # What a launch left unfinished is another pass of the same repeat.
                while sweep.upcoming_repeat == number:
                    sweep.advance()
            for sweep in dropped(number):
                sweep.drop_rest()
            racing = [racer for racer in racing if racer.upcoming]
            number += 1

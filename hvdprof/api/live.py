"""Watch a job while it runs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hvdprof.errors import HvdprofError
from hvdprof.live.sinks.choose import DESTINATIONS as DESTINATIONS
from hvdprof.live.sinks.choose import OF_FINISHED_RUNS as OF_FINISHED_RUNS
from hvdprof.live.sinks.choose import SinkOptions as SinkOptions
from hvdprof.live.sinks.choose import check_publish as check_publish
from hvdprof.live.sinks.choose import guarded, sinks_of
from hvdprof.live.sinks.choose import publish as publish
from hvdprof.live.sinks.fail_open import Summary as Summary
from hvdprof.live.snapshot import CAUSE_TEXTS as CAUSE_TEXTS
from hvdprof.live.snapshot import Event as Event
from hvdprof.live.snapshot import Snapshot as Snapshot
from hvdprof.live.watcher import LOOK_S
from hvdprof.live.watcher import Look as Look
from hvdprof.live.watcher import Watcher as Watcher

Warn = Callable[[str], None]


def watch(
    place: str | Path,
    *,
    sinks: "SinkOptions | None" = None,
    stop: threading.Event | None = None,
    profile_on_event: bool = False,
) -> Iterator[Look]:
    """What is known of a running job, about once per second until it has ended.

    >>> [look.snapshot.is_over for look in watch("runs/example")]
    [True]

    Several may watch one job: each keeps count of its own, and what one has written down is
    reported once.

    Args:
        place: A run directory, or a folder of recorder files (``HVDPROF_RECORDER_DIR``).
        sinks: Where figures and events go besides.
        stop: Ends the watch when it is set.
        profile_on_event: Whether a rank that is named, and one that is not late, record three
            steps with torch.profiler; on three events of a run at most.

    Yields:
        ``snapshot`` with the figures, ``events`` that are new, and ``problems``, sentences on what
        limits the figures and on sinks that fail.

    Raises:
        UnreadableInputError: The place cannot be watched.
        UsageError: A sink is not known, or cannot be used.
    """
    watcher = Watcher(Path(place), profiles=profile_on_event)
    stop = stop or threading.Event()
    warnings: list[str] = []
    guards = guarded(sinks_of(sinks), warnings.append) if sinks is not None else []
    warnings += [f"{sink.name}: {sink.where}" for sink in guards if sink.where not in sink.name]
    try:
        while True:
            # One look follows the end: what ranks wrote last is reported.
            is_last = stop.is_set()
            look = watcher.look()
            for sink in guards:
                for event in look.events:
                    sink.report(event)
                sink.show(look.snapshot)
            is_last |= look.snapshot.is_over
            while is_last and guards:
                # What a sink says at its end belongs to the last look.
                guards.pop().close()
            yield Look(look.snapshot, look.events, [*look.problems, *warnings])
            warnings.clear()
            if is_last:
                return
            stop.wait(LOOK_S)
    finally:
        watcher.close()
        for sink in guards:
            sink.close()


@contextmanager
def watching(
    place: Path,
    show: Callable[[Look], None],
    warn: Warn,
    sinks: "SinkOptions | None" = None,
    *,
    profile_on_event: bool = False,
) -> Iterator[None]:
    """Watch a job in a thread within the block; the job continues where the watcher fails.

    Args:
        place: As ``watch``.
        show: Called in the thread with each look.
        warn: Called in the thread with the message of an error that ends it.
        sinks: As ``watch``.
        profile_on_event: As ``watch``.
    """
    stop = threading.Event()

    def follow() -> None:
        try:
            for look in watch(place, sinks=sinks, stop=stop, profile_on_event=profile_on_event):
                show(look)
        except (HvdprofError, OSError) as error:
            warn(f"the watcher has ended: {error}")

    thread = threading.Thread(target=follow, name="hvdprof watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(2 * LOOK_S)

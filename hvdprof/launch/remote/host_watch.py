"""Whether the hosts of a launch are still there: checked only while no rank makes progress.

A host that loses its network leaves connections open for a quarter of an hour. So the check opens
a new one, to the port of its remote shell: an answer or a refusal shows that the host is there.
Hosts that do not answer at the start, behind a filter, are not watched.
"""

import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

NO_PROGRESS_S = 8.0
"""Seconds without progress of any rank after which the hosts are checked."""
LEAST_MISSES = 3
LEAST_SILENT_S = 10.0

_PORT = 22
_ANSWER_S = 3.0
_PAUSE_S = 2.0
_MAX_AT_ONCE = 32


def answers(host: str) -> bool:
    """Whether a host answers within three seconds, be it by a refusal."""
    try:
        with socket.create_connection((host, _PORT), _ANSWER_S):
            return True
    except ConnectionRefusedError:
        return True
    except OSError:
        return False


class HostWatch:
    """Watches the hosts of one launch.

    Args:
        hosts: The other hosts, by name with the ranks that run there.
        answers: Whether a host is there; may take some seconds.
        clock: Seconds of a monotonic clock.
    """

    def __init__(
        self,
        hosts: Mapping[str, Sequence[int]],
        answers: Callable[[str], bool] = answers,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._answers = answers
        self._clock = clock
        there = self._ask(list(hosts))
        # Once more, since a host that counts as away here is not watched at all.
        there |= self._ask([name for name, answered in there.items() if not answered])
        self.hosts = {name: ranks for name, ranks in hosts.items() if there[name]}
        self._misses = dict.fromkeys(self.hosts, 0)
        self._silent_since_s: dict[str, float] = {}
        self._seen: int | None = None
        self._since_s = clock()
        self._asking: threading.Thread | None = None
        self._asked_s = 0.0

    def look(self, progress: int) -> None:
        """Note how far the ranks are, and check the hosts where none makes progress."""
        now_s = self._clock()
        if progress != self._seen:
            self._seen, self._since_s = progress, now_s
            return
        is_busy = self._asking is not None and self._asking.is_alive()
        if now_s - self._since_s < NO_PROGRESS_S or now_s - self._asked_s < _PAUSE_S or is_busy:
            return
        self._asked_s = now_s
        self._asking = threading.Thread(target=self.ask, name="hvdprof hosts", daemon=True)
        self._asking.start()

    def ask(self) -> None:
        """Ask every host once."""
        for name, is_there in self._ask(list(self.hosts)).items():
            if is_there:
                self._misses[name] = 0
                self._silent_since_s.pop(name, None)
            else:
                self._misses[name] += 1
                self._silent_since_s.setdefault(name, self._clock())

    def ask_to_the_end(self) -> None:
        """Ask until every host has answered, or has not for long enough to be lost."""
        self.ask()
        while any(self._misses[name] > 0 for name in self.hosts if name not in self.lost):
            time.sleep(_PAUSE_S)
            self.ask()

    @property
    def lost(self) -> dict[str, float]:
        """The hosts that are gone, with the seconds since they first did not answer."""
        now_s = self._clock()
        silent = {name: now_s - since_s for name, since_s in self._silent_since_s.copy().items()}
        return {
            name: seconds
            for name, seconds in silent.items()
            if self._misses[name] >= LEAST_MISSES and seconds >= LEAST_SILENT_S
        }

    def _ask(self, names: Sequence[str]) -> dict[str, bool]:
        if not names:
            return {}
        with ThreadPoolExecutor(min(len(names), _MAX_AT_ONCE)) as pool:
            return dict(zip(names, pool.map(self._answers, names), strict=True))

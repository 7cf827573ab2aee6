"""Launches on several hosts: the plan goes there, the hosts are watched, the files come back."""

import itertools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hvdprof import units
from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.launch.plan.hosts import is_this_host
from hvdprof.launch.plan.settings import Settings
from hvdprof.launch.plan.workload import python_program
from hvdprof.launch.processes.interruption import OrphanGuard
from hvdprof.launch.processes.launch_process import Launch, LaunchOutcome, run_launcher
from hvdprof.launch.remote.host_survey import ask_hosts, has_other_hosts
from hvdprof.launch.remote.host_watch import HostWatch, capacity_of, fit_to_hosts
from hvdprof.launch.remote.live_copies import LiveCopies
from hvdprof.launch.remote.pass_files import pack
from hvdprof.launch.remote.remote_shell import (
    FILES,
    HostShell,
    WatchFetch,
    fetch,
    host_shell,
    hosts_with_ranks,
    module_error,
    on_each,
)
from hvdprof.launch.run.session_passes import refine_from_ranks
from hvdprof.launch.run.sweep import Sweep
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.failures.launcher_failures import Failure
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import Manifest, PassRecord, Status

_KILL_RANKS = "hvdprof.launch.remote.kill_ranks"
_MOST_LINES = 8
_KEEPS = "keeps the files of its ranks; --resume fetches them"


def ready_hosts(sweep: Sweep) -> None:
    """Ask every host of a sweep what it has, and watch its launches on all of them.

    A sweep on this host alone stays as it is. What was planned with the cores of this host is
    planned again with those of each host. Files that an earlier run left on hosts are fetched.

    Raises:
        EnvironmentNotReadyError: A host cannot run its part; all such hosts are named.
        StorageError: The run directory cannot be written to.
    """
    if not has_other_hosts(sweep.settings):
        return
    shell = host_shell(sweep.settings, sweep.environment)
    folder = sweep.paths.folder
    asked = ask_hosts(sweep.settings, sweep.manifest.hosts, folder, shell)
    sweep.manifest.hosts = asked.records
    capacity = capacity_of(sweep.settings, asked.facts)
    sweep.settings = fit_to_hosts(sweep.settings, sweep.manifest, capacity)
    sweep.run_launch = LaunchOnHosts(
        sweep.settings,
        sweep.manifest,
        shell,
        apart=() if sweep.settings.is_function else asked.apart,
        run=sweep.run_launch,
    )
    for record in sweep.manifest.passes:
        if record.left_behind:
            _fetch_again(sweep, record, shell)
    sweep.manifest.write(sweep.paths)


@dataclass(slots=True)
class LaunchOnHosts:
    """Runs launches whose ranks are on several hosts.

    ``apart`` are the hosts that do not see the run directory: they are given the plan before, and
    what their ranks wrote is fetched afterwards. ``run`` runs a launch and waits for its end.
    """

    settings: Settings
    manifest: Manifest
    shell: HostShell
    apart: tuple[str, ...]
    run: Callable[[Launch], LaunchOutcome] = run_launcher
    _answered: set[str] = field(default_factory=set)

    def __call__(self, launch: Launch) -> LaunchOutcome:
        """Run the launch; the outcome says why it failed where a host is the cause."""
        ranks = ranks_of_hosts(hosts_with_ranks(self.settings, launch.job.size))
        others = {name: placed for name, placed in ranks.items() if not is_this_host(name)}
        apart = [name for name in self.apart if name in ranks]
        pass_id = launch.paths.folder.name
        record = next(record for record in self.manifest.passes if record.id == pass_id)
        not_reached = self._deliver(launch.paths, apart)
        if not_reached:
            return LaunchOutcome(
                1, False, 0.0, _failure("cannot be given the plan", not_reached, ranks)
            )
        watch = HostWatch(others)
        gone = dict.fromkeys((self._answered & others.keys()) - watch.hosts.keys(), "no answer")
        if gone:
            return LaunchOutcome(1, False, 0.0, _failure("has vanished", gone, ranks))
        self._answered |= watch.hosts.keys()
        guard = OrphanGuard(
            *(
                self.shell.command(name, python_program(_KILL_RANKS, str(launch.paths.folder)))
                for name in others
            )
        )
        copies = LiveCopies(launch.paths.recorder_folder, apart, self.shell)
        try:
            watch_fetch = WatchFetch(launch.paths, apart, self.shell)
            watched = _HostWatchedLaunch(launch, watch, watch_fetch, copies)
            outcome = self.run(watched.launch())
        except BaseException:
            copies.close()
            # Ctrl-C above all, and a full disk: no rank is left behind after any exception.
            record.left_behind = list(apart)
            self._end(launch.paths, list(others))
            guard.dismiss()
            raise
        copies.close()
        self.manifest.warnings += [
            f"{name}, which ran {ranks_named(ranks[name])}, was not seen all the time while the "
            f"job was watched ({reason})."
            for name, reason in copies.problems.items()
        ]
        if outcome.hung or outcome.exit_code:
            watch.ask_to_the_end()
            self._end(launch.paths, [name for name in others if name not in watch.lost])
        guard.dismiss()
        lost = {
            name: f"no answer for {units.seconds(silent_s)}"
            for name, silent_s in watch.lost.items()
        }
        failed = fetch(launch.paths, [name for name in apart if name not in lost], self.shell)
        record.left_behind = [name for name in apart if name in lost or name in failed]
        if lost:
            lines = _last_lines(launch.paths.stderr, watched.errors_before_bytes)
            return replace(outcome, failure=_failure("has vanished", lost, ranks, lines))
        if failed and not outcome.exit_code:
            return replace(outcome, failure=_failure(_KEEPS, failed, ranks))
        return outcome

    def _deliver(self, paths: PassPaths, names: Sequence[str]) -> dict[str, str]:
        """Give the plan to hosts; those that did not take it, with the reason."""
        if not names:
            return {}
        with tempfile.TemporaryFile() as stream:
            pack(paths.folder, [paths.plan], stream)
            stream.seek(0)
            content = stream.read()

        def put(name: str) -> str:
            return module_error(self.shell, name, (FILES, "put", str(paths.folder)), content)

        return on_each(names, put)

    def _end(self, paths: PassPaths, names: Sequence[str]) -> None:
        """End what a failed launch has left on hosts; one that is not reached is skipped."""

        def end(name: str) -> str:
            return module_error(self.shell, name, (_KILL_RANKS, str(paths.folder)))

        on_each(names, end)


def ranks_of_hosts(placed: Mapping[str, int]) -> dict[str, list[int]]:
    """The ranks of each host, from their numbers in the order in which hosts are filled."""
    numbers = itertools.count()
    return {name: list(itertools.islice(numbers, many)) for name, many in placed.items()}


def _fetch_again(sweep: Sweep, record: PassRecord, shell: HostShell) -> None:
    """Fetch what is left on other hosts of an earlier pass; it counts where that completes it."""
    paths = PassPaths(sweep.paths.of_pass(record.id).folder.absolute())
    record.left_behind = list(fetch(paths, record.left_behind, shell))
    if record.left_behind or record.exit_code:
        return
    progress = PassProgress(paths)
    progress.update()
    ended = progress.ended_segments(record.size)
    for segment in record.segments:
        if segment.segment.id in ended:
            segment.status, segment.failure = Status.DONE, None
    refine_from_ranks(record, sweep.manifest, progress, sweep.settings)
    if all(segment.status == Status.DONE for segment in record.segments):
        record.status = Status.DONE


class _HostWatchedLaunch:
    """A launch whose hosts are watched too.

    ``errors_before_bytes`` is how much had been printed as errors when it was ended for a lost
    host: what launchers print about that end is not the reason. None where it was not ended so.
    """

    def __init__(
        self, launch: Launch, watch: HostWatch, watch_fetch: WatchFetch, copies: LiveCopies
    ) -> None:
        self._launch = launch
        self._copies = copies
        self._watch = watch
        self._fetch = watch_fetch
        self.errors_before_bytes: int | None = None

    def launch(self) -> Launch:
        """The launch that is run."""
        watch = replace(self._launch.watch, progress=self._look, must_end=self._must_end)
        return replace(self._launch, watch=watch)

    def _look(self) -> int:
        progress = self._launch.watch.progress()
        self._watch.look(progress)
        self._fetch.look(progress)
        self._copies.look()
        return progress

    def _must_end(self) -> bool:
        if self._watch.lost and self.errors_before_bytes is None:
            self.errors_before_bytes = self._launch.paths.stderr.stat().st_size
        return self.errors_before_bytes is not None or self._launch.watch.must_end()


def _failure(
    what: str,
    reasons: Mapping[str, str],
    ranks: Mapping[str, Sequence[int]],
    lines: Sequence[str] = (),
) -> Failure:
    sentences = [
        f"host {name}, which ran {ranks_named(ranks[name])}, {what} ({reason})"
        for name, reason in reasons.items()
    ]
    lost_ranks = [rank for name in reasons for rank in ranks[name]]
    return Failure(reason="; ".join(sentences), rank=min(lost_ranks), lines=list(lines))


def _last_lines(path: Path, up_to_bytes: int | None) -> list[str]:
    lines = path.read_bytes()[:up_to_bytes].decode("utf-8", "replace").splitlines()
    return [line for line in lines if line.strip()][-_MOST_LINES:]

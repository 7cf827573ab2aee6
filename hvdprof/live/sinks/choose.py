"""The sinks that options ask for."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hvdprof.errors import EnvironmentNotReadyError, HvdprofError, MissingExtraError, UsageError
from hvdprof.live.sinks.fail_open import FailOpen, Sink, Summary, reason_of
from hvdprof.rundir.written_file import check_new


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where live figures and events go.

    Args:
        folder: The run directory, or where files of a destination may be made.
        prom: A file for node_exporter.
        metrics_port: Of ``/metrics``; 0 for any free one.
        metrics_host: The address that it listens on.
        on_event: A command for each event; none where empty.
        to: Names of ``DESTINATIONS``.
    """

    folder: Path
    prom: Path | None = None
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    on_event: str = ""
    to: Sequence[str] = ()


DESTINATIONS = ("otel", "wandb", "mlflow", "tensorboard", "kubeflow")
OF_FINISHED_RUNS = ("wandb", "mlflow", "tensorboard")
_HINTS = {
    "wandb": "Run `wandb login`, or record for later with WANDB_MODE=offline.",
    "mlflow": "Set MLFLOW_TRACKING_URI to your server, or to sqlite:///mlflow.db.",
}


def sinks_of(options: SinkOptions) -> list[Sink]:
    """The sinks, each ready to be called; those made before one that fails are closed.

    Raises:
        UsageError: An option names something unknown or impossible.
        MissingExtraError: A library is not installed.
        EnvironmentNotReadyError: A library or its service does not start.
        StorageError: A file cannot be written.
    """
    _check_known(options.to, DESTINATIONS)
    sinks: list[Sink] = []
    try:
        for sink in _made(options):
            sinks.append(sink)
    except BaseException:
        for sink in sinks:
            sink.close()
        raise
    return sinks


def check_publish(folder: Path, to: Sequence[str], *, overwrite: bool) -> None:
    """Check, before a run is read, that it may be sent to these.

    Raises:
        UsageError: A destination takes no finished runs.
        StorageError: TensorBoard's folder has a report that may not be replaced.
    """
    _check_known(to, OF_FINISHED_RUNS)
    if "tensorboard" in to:
        from hvdprof.live.sinks.trackers import FOLDER, REPORT

        check_new(folder / FOLDER / REPORT, overwrite=overwrite)


def publish(summary: Summary, folder: Path, to: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Send a finished run; unlike live figures, a failure is an error.

    Yields:
        Each destination that has taken it, and where.

    Raises:
        MissingExtraError: A library is not installed.
        EnvironmentNotReadyError: A library or its service does not take the run.
    """
    for name in dict.fromkeys(to):
        with _errors_of(name), closing(_destination(name, folder)) as sink:
            sink.publish(summary)
        yield name, sink.where


def guarded(sinks: Sequence[Sink], warn: Callable[[str], None]) -> list[FailOpen]:
    """The same, none of which can delay or end the watcher; see ``FailOpen``."""
    return [FailOpen(sink, warn, sink.limit_s) for sink in sinks]


def _check_known(names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise UsageError(f"--to {name} is not known.", hint=f"Known are: {', '.join(known)}.")


# Each sink is imported where it is made: most commands know the options alone, and a server, TLS
# and the libraries take a part of a second.


def _made(options: SinkOptions) -> Iterator[Sink]:
    if options.prom is not None:
        from hvdprof.live.sinks.metrics_server import PromFile

        yield PromFile(options.prom)
    if options.metrics_port is not None:
        from hvdprof.live.sinks.metrics_server import MetricsServer

        yield MetricsServer(options.metrics_port, options.metrics_host, options.folder)
    if options.on_event:
        from hvdprof.live.sinks.event_command import EventCommand

        yield EventCommand(options.on_event)
    for name in dict.fromkeys(options.to):
        yield _opened(name, options.folder)


def _opened(name: str, folder: Path) -> Sink:
    with _errors_of(name):
        return _destination(name, folder)


@contextmanager
def _errors_of(name: str) -> Iterator[None]:
    try:
        yield
    except HvdprofError:
        raise
    except ImportError as error:
        raise MissingExtraError(f"--to {name}", extra=name) from error
    except Exception as error:
        # Each library, and what it is built on, has exceptions of its own.
        raise EnvironmentNotReadyError(
            f"--to {name} cannot be used: {reason_of(error)}.", hint=_HINTS.get(name, "")
        ) from error


def _destination(name: str, folder: Path) -> Sink:
    if name == "otel":
        from hvdprof.live.sinks.metrics_server import OtelMetrics

        return OtelMetrics()
    if name == "wandb":
        from hvdprof.live.sinks.trackers import WandbRun

        return WandbRun(folder)
    if name == "mlflow":
        from hvdprof.live.sinks.trackers import MlflowRun

        return MlflowRun(folder)
    if name == "tensorboard":
        from hvdprof.live.sinks.trackers import TensorboardFiles

        return TensorboardFiles(folder)
    from hvdprof.live.sinks.trackers import KubeflowStatus

    return KubeflowStatus()

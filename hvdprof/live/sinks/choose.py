"""The sinks that options ask for."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hvdprof.errors import EnvironmentNotReadyError, HvdprofError, MissingExtraError, UsageError
from hvdprof.live.sinks.fail_open import FailOpen
from hvdprof.live.sinks.sink import Sink, reason_of


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
    unknown = [name for name in options.to if name not in DESTINATIONS]
    if unknown:
        raise UsageError(
            f"--to {unknown[0]} is not known.", hint=f"Known are: {', '.join(DESTINATIONS)}."
        )
    sinks: list[Sink] = []
    try:
        for sink in _made(options):
            sinks.append(sink)
    except BaseException:
        for sink in sinks:
            sink.close()
        raise
    return sinks


def guarded(sinks: Sequence[Sink], warn: Callable[[str], None]) -> list[FailOpen]:
    """The same, none of which can delay or end the watcher; see ``FailOpen``."""
    return [FailOpen(sink, warn, sink.limit_s) for sink in sinks]


# Each sink is imported where it is made: most commands know the options alone, and a server, TLS
# and the libraries take a part of a second.


def _made(options: SinkOptions) -> Iterator[Sink]:
    if options.prom is not None:
        from hvdprof.live.sinks.prom_file import PromFile

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
    try:
        return _destination(name, folder)
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
        from hvdprof.live.sinks.otel import OtelMetrics

        return OtelMetrics()
    if name == "wandb":
        from hvdprof.live.sinks.wandb_run import WandbRun

        return WandbRun(folder)
    if name == "mlflow":
        from hvdprof.live.sinks.mlflow_run import MlflowRun

        return MlflowRun(folder)
    if name == "tensorboard":
        from hvdprof.live.sinks.tensorboard import TensorboardFiles

        return TensorboardFiles(folder)
    from hvdprof.live.sinks.kubeflow import KubeflowStatus

    return KubeflowStatus()

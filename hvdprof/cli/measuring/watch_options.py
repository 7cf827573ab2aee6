"""Where what is seen of a running job goes, besides the terminal."""

from dataclasses import dataclass
from pathlib import Path

from hvdprof.api.live import DESTINATIONS, SinkOptions
from hvdprof.api.options import WATCH, option


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """The options of ``hvdprof watch``, and of ``run`` and ``bench`` with ``--watch``."""

    prom: Path | None = option(
        None,
        "Keep the figures in this file for node_exporter's textfile collector.",
        "--prom",
        panel=WATCH,
    )
    metrics_port: int | None = option(
        None, "Serve /metrics for Prometheus on this port.", "--metrics-port", panel=WATCH
    )
    metrics_host: str = option(
        "127.0.0.1", "The address to serve it on.", "--metrics-host", panel=WATCH
    )
    on_event: str = option(
        "",
        "A command for each event, which gets it as JSON on standard input.",
        "--on-event",
        panel=WATCH,
    )
    to: tuple[str, ...] = option(
        (),
        f"Send figures and events to {', '.join(DESTINATIONS)}; several times for several.",
        "--to",
        panel=WATCH,
        repeated=True,
    )
    profile_on_event: bool = option(
        False,
        "Let a rank that is named, and one that is not late, record three steps with "
        "torch.profiler, on three events at most.",
        "--profile-on-event",
        panel=WATCH,
    )

    def sinks(self, folder: Path) -> SinkOptions | None:
        """What the options ask for; None where they ask for nothing."""
        if not (self.prom or self.metrics_port is not None or self.on_event or self.to):
            return None
        return SinkOptions(
            folder, self.prom, self.metrics_port, self.metrics_host, self.on_event, self.to
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWatchOptions(WatchOptions):
    """The same beside a measurement."""

    watch: bool = option(
        False,
        "Report on standard error, while the job runs, which rank is slow, and when all are.",
        "--watch",
        panel=WATCH,
    )

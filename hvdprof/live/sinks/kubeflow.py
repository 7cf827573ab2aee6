"""The status of a TrainJob of Kubeflow Trainer (KEP-2779)."""

import json
import os
import ssl
import time
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from hvdprof.errors import UsageError
from hvdprof.live.flat_figures import flat_figures
from hvdprof.live.sinks.fail_open import Sink
from hvdprof.live.snapshot import Snapshot

PREFIXES = ("KUBEFLOW_TRAINER_SERVER_", "KUBEFLOW_TRAINER_STATUS_")
"""Of the variables that the controller sets: in newer and in older versions."""

PERIOD_S = 10.0
_POST_S = 5.0


class KubeflowStatus(Sink):
    """``--to kubeflow``: posts the figures every 10 s, and the last ones at the end.

    The status has no other metrics then: a script that reports its own replaces these.

    Raises:
        UsageError: The variables of the controller are not set, or name no HTTPS address.
        OSError: The certificate cannot be read.
    """

    limit_s = _POST_S + 1

    def __init__(
        self, environment: Mapping[str, str] = os.environ, period_s: float = PERIOD_S
    ) -> None:
        prefix = next((one for one in PREFIXES if environment.get(f"{one}URL")), PREFIXES[0])
        names = [f"{prefix}{name}" for name in ("URL", "CA_CERT", "TOKEN")]
        if missing := [name for name in names if not environment.get(name)]:
            raise UsageError(
                f"--to kubeflow: {', '.join(missing)} is not set.",
                hint="Watch in a pod of a TrainJob whose controller has the gate TrainJobStatus.",
            )
        url, certificate, token = (environment[name] for name in names)
        if not url.startswith("https://"):
            raise UsageError(f"--to kubeflow: {prefix}URL is no https:// address: {url}.")
        self.name = "--to kubeflow"
        self.where = url
        self._token_file = Path(token)
        self._tls = ssl.create_default_context(cafile=certificate)
        self._period_s = period_s
        self._due_s = 0.0
        self._unsent: Snapshot | None = None

    def show(self, snapshot: Snapshot) -> None:
        """Post the figures of a window when it is time."""
        self._unsent = snapshot
        if snapshot.is_over or time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + self._period_s
            self._post(snapshot)

    def close(self) -> None:
        """Post the last figures."""
        if self._unsent is not None:
            self._post(self._unsent)

    def _post(self, snapshot: Snapshot) -> None:
        headers = {
            # The token is exchanged while the job runs.
            "Authorization": f"Bearer {self._token_file.read_text(encoding='utf-8').strip()}",
            "Content-Type": "application/json",
        }
        request = urllib.request.Request(
            self.where, data=json.dumps(status_of(snapshot)).encode(), headers=headers
        )
        with urllib.request.urlopen(request, timeout=_POST_S, context=self._tls):
            self._unsent = None


def status_of(snapshot: Snapshot) -> dict[str, object]:
    """The body of a post; how far the training is, no watcher knows."""
    return {
        "trainerStatus": {
            "metrics": [
                {"name": key, "value": f"{value:.6g}"}
                for key, value in flat_figures(snapshot).items()
            ],
            "lastUpdatedTime": datetime.fromtimestamp(snapshot.time_s, UTC).isoformat(),
        }
    }

"""Rules on variables that usually hurt when they stay set.

Tested in ``tests/analyze/findings/test_nccl_findings.py``.
"""

from collections.abc import Callable, Iterator

from hvdprof.analyze.findings.advice import unset
from hvdprof.analyze.findings.finding import Finding
from hvdprof.analyze.findings.nccl_rules.nccl_network_rules import shows_infiniband
from hvdprof.analyze.findings.nccl_rules.nccl_rule import hosts_of, shown
from hvdprof.model.nccl_recording import NcclRecording

_SMALL_BUFFER_BYTES = 1 << 20


def _is_few(value: str) -> bool:
    return value.isdigit() and int(value[:9]) <= 2


_HURTS: dict[str, tuple[Callable[[str], bool], str, str]] = {
    "NCCL_ALGO": (bool, "note", "forces one algorithm for all sizes"),
    "NCCL_PROTO": (bool, "note", "forces one protocol for all sizes"),
    "NCCL_IB_DISABLE": (lambda value: value == "1", "warning", "disables InfiniBand and RoCE"),
    "NCCL_BUFFSIZE": (
        lambda value: value.isdigit() and int(value[:18]) < _SMALL_BUFFER_BYTES,
        "warning",
        "makes buffers smaller than 1 MiB, a quarter of the default",
    ),
    "NCCL_MAX_NCHANNELS": (_is_few, "warning", "allows no more than two channels"),
    "NCCL_MAX_CTAS": (_is_few, "warning", "allows no more than two channels"),
    "NCCL_NTHREADS": (bool, "note", "overrides the number of threads"),
    "NCCL_LAUNCH_MODE": (bool, "note", "overrides the launch mode"),
}
"""Variable: when it counts, how badly, and what it does."""


def settings_that_hurt(recording: NcclRecording) -> Iterator[Finding]:
    """Variables of the environment; values that a network plugin sets are left alone."""
    settings = recording.settings
    for variable, (counts, severity, effect) in _HURTS.items():
        rows = settings[(settings["variable"] == variable) & (settings["origin"] == "environment")]
        rows = rows[rows["value"].astype(str).map(counts).astype(bool)]
        plugin = (settings["variable"] == variable) & (settings["origin"] == "plugin")
        if rows.empty or bool(plugin.any()):
            continue
        if variable == "NCCL_IB_DISABLE" and not shows_infiniband(recording):
            continue
        values = " and ".join(dict.fromkeys(str(value) for value in rows["value"]))
        yield Finding(
            "nccl-setting-hurts",
            severity,
            variable,
            "harmful setting" if severity == "warning" else "override",
            f"{variable}={values} on {hosts_of(rows)} {effect}.",
            unset(variable, " and compare"),
            "likely" if severity == "warning" else "possible",
            *shown(rows),
            detail=variable,
        )

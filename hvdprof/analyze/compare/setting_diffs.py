"""What differs between two runs besides their numbers, and what of it forbids a comparison."""

import shlex
from collections.abc import Iterator, Mapping

import pandas as pd

from hvdprof.model.tables.comparison_tables import SETTING_DIFFS
from hvdprof.rundir.manifest import Manifest
from hvdprof.rundir.masking import mask_command, mask_value

SETTINGS, VERSIONS, HOSTS, ENVIRONMENT, SOURCE = (
    "settings",
    "versions",
    "hosts",
    "environment",
    "source",
)

_COMMAND = "script.command"
_VARIABLE = "--env "

_HOST_FACTS = ("cpu_model", "num_cores", "gpus")
_NOTED_HOST_FACTS = ("hostname", "kernel", "memory_bytes")
_NOTED_VERSIONS = ("hvdprof", "system")
"""Versions that are listed, and change neither the job nor the machine."""

_FORBIDDING_SETTINGS = ("device", "num_threads", "data", "scaling", "seed", "light")
_COMPARED = (
    *("compressions", "reductions", "scaling", "num_warmup_batches", "attribution"),
    *("controller", "device", "hosts", "num_threads", "fusion_threshold_mb", "cycle_time_ms"),
    *("cache_capacity", "data", "data_dir", "seed", "launcher", "engines", "no_turns", "light"),
    *("trace", "num_timeline_steps"),
    *("host_discovery_script", "min_np", "max_np", "slots", "elastic_timeout_s", "reset_limit"),
)
"""Settings and options beside how long was measured and which cells, as the table of cells says."""


def setting_diffs(first: Manifest, second: Manifest) -> pd.DataFrame:
    """SETTING_DIFFS of two runs, what forbids their comparison first.

    Args:
        first: The manifest of the first run.
        second: The manifest of the second run.
    """
    rows = [
        *_diffs(SETTINGS, _settings(first), _settings(second), _FORBIDDING_SETTINGS),
        *_diffs(
            VERSIONS,
            first.versions,
            second.versions,
            tuple({*first.versions, *second.versions} - {*_NOTED_VERSIONS}),
        ),
        *_diffs(HOSTS, _hosts(first), _hosts(second), ("number of hosts", *_HOST_FACTS)),
        *_diffs(ENVIRONMENT, first.environment, second.environment, ()),
        *_diffs(SOURCE, _source(first), _source(second), ()),
    ]
    return SETTING_DIFFS.frame(sorted(rows, key=lambda row: not row["matters"]))


def _diffs(
    place: str, first: Mapping[str, object], second: Mapping[str, object], matters: tuple[str, ...]
) -> Iterator[dict[str, object]]:
    for name in dict.fromkeys([*first, *second]):
        one, other = first.get(name), second.get(name)
        if one != other:
            yield {
                "place": place,
                "name": name,
                "first": _text(name, one),
                "second": _text(name, other),
                "matters": name in matters,
            }


def _text(name: str, value: object) -> str:
    """A value as it is shown: secrets of commands and variables are masked, and still differ."""
    if value is None:
        return ""
    if not isinstance(value, list):
        return mask_value(name.removeprefix(_VARIABLE), str(value))
    words = [str(word) for word in value]
    return shlex.join(mask_command(words)) if name == _COMMAND else ", ".join(words)


def _settings(manifest: Manifest) -> dict[str, object]:
    """What was decided, else given, by name; an option that is off is as one that is not known."""
    recorded = manifest.options | manifest.settings
    known = ((name, recorded.get(name)) for name in _COMPARED)
    found = {name: value for name, value in known if value is not None and value is not False}
    script = recorded.get("script") or {}
    found |= {f"script.{name}": value for name, value in script.items()}
    env = (text.partition("=") for text in recorded.get("env") or ())
    return found | {f"{_VARIABLE}{name}": value for name, _, value in env}


def _hosts(manifest: Manifest) -> dict[str, object]:
    facts: dict[str, object] = {"number of hosts": len(manifest.hosts) or None}
    for name in (*_HOST_FACTS, *_NOTED_HOST_FACTS):
        known = {_text(name, host.get(name)) for host in manifest.hosts}
        facts[name] = ", ".join(sorted(text for text in known if text)) or None
    return facts


def _source(manifest: Manifest) -> dict[str, object]:
    git = manifest.git or {}
    return {"commit": git.get("commit"), "changed files": git.get("dirty")}

"""What differs between two runs besides their numbers: settings, and what the machine did."""

import shlex
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.analyze.compare.outcomes import (
    chance_of_at_most,
    change_interval,
    is_known,
    negative,
)
from hvdprof.analyze.stats.uncertainty import Spread, less, spread
from hvdprof.model.cell_key import LaunchKey, rows_by_launch
from hvdprof.model.results.comparison import Rules
from hvdprof.model.tables.comparison_tables import SETTING_DIFFS
from hvdprof.rundir.manifest import Manifest
from hvdprof.rundir.masking import mask_command, mask_value
from hvdprof.rundir.recording.sample_format import CORE_WAIT, SM_CLOCK

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

LEAST_WAIT = 0.05
"""The least difference of the share of the time without a core that is said."""


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


def machine_of_launches(
    rank_machine: pd.DataFrame, launches: Iterable[LaunchKey]
) -> dict[str, Spread]:
    """The mean over ranks of what is compared, over launches; of clocks the logarithm.

    Args:
        rank_machine: RANK_MACHINE of a run.
        launches: The launches of one cell; those without samples are left out.
    """
    found: dict[str, Spread] = {}
    rows = dict(rows_by_launch(rank_machine))
    names, means = rank_machine["measure"].astype(str).to_numpy(), rank_machine["mean"].to_numpy()
    for measure in (SM_CLOCK, CORE_WAIT):
        own = [rows[key][names[rows[key]] == measure] for key in launches if key in rows]
        values = [float(means[places].mean()) for places in own if len(places)]
        if values:
            found[measure] = spread([*np.log(values)] if measure == SM_CLOCK else values)
    return found


def clock_reason(first: Mapping[str, Spread], second: Mapping[str, Spread], rules: Rules) -> str:
    """Why GPU clocks forbid the comparison of a cell; empty where they do not.

    Launches of both that were interleaved met the same machine: there clocks follow the code.

    Args:
        first: What the machine did to the cell of the first run.
        second: The same of the second run.
        rules: The rules of the comparison.
    """
    change = _change(first, second, SM_CLOCK)
    if rules.is_paired or change is None or not _is_beyond(change, rules.margin, rules.level):
        return ""
    ends = change_interval(change, rules.level)
    change_, low, high = (float(np.expm1(end)) for end in (ends.value, ends.low, ends.high))
    size = units.percent_interval(change_, low, high)
    if change_ < 0:
        size = units.percent_interval(-change_, -high, -low)
    than = "lower" if change_ < 0 else "higher"
    return f"GPU clocks (SM) {size} {than} in the second run"


def core_caveats(
    pairs: Iterable[tuple[str, Mapping[str, Spread], Mapping[str, Spread]]],
    names: tuple[str, str],
    rules: Rules,
) -> Iterator[str]:
    """Sentences on cells whose ranks had a core less often in one run than in the other.

    Args:
        pairs: The name of each cell, and what the machine did to it in both runs.
        names: Of both runs.
        rules: The rules of the comparison; none of launches that were interleaved.
    """
    for cell, first, second in () if rules.is_paired else pairs:
        change = _change(first, second, CORE_WAIT)
        if change is None or not _is_beyond(change, LEAST_WAIT, rules.level):
            continue
        texts = []
        for name, of in zip(names, (first, second), strict=True):
            ends = change_interval(of[CORE_WAIT], rules.level)
            texts.append(f"{units.percent_interval(ends.value, ends.low, ends.high)} in {name}")
        yield (
            f"{cell}: of the time in which ranks could run they had no core for "
            f"{' and '.join(texts)}: what shares their cores explains a change before the code."
        )


def _change(
    first: Mapping[str, Spread], second: Mapping[str, Spread], measure: str
) -> Spread | None:
    if measure not in first or measure not in second:
        return None
    change = less(second[measure], first[measure])
    return change if is_known(change) else None


def _is_beyond(change: Spread, limit: float, level: float) -> bool:
    """Whether a change is beyond a limit, above or below, and not by chance."""
    return min(chance_of_at_most(one, limit) for one in (change, negative(change))) <= level

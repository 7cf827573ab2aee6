"""The options of a run that another measurement of the same job needs, from its manifest.

Numbers of ranks, hosts, model and repeats are chosen by who measures; names, folders, limits,
warm-up and launches with a timeline do not change a job.

Tested in ``tests/analyze/predict/test_measure_command.py``.
"""

from hvdprof.rundir.manifest import Manifest

JOB_OPTIONS: dict[str, tuple[str, object]] = {
    "controller": ("--controller", "auto"),
    "launcher": ("--launcher", "auto"),
    "device": ("--device", "auto"),
    "preset": ("--preset", "standard"),
    "scaling": ("--scaling", "weak"),
    "batch_size": ("--batch-size", None),
    "image_size": ("--image-size", None),
    "num_steps": ("--num-steps", None),
    "max_seconds": ("--max-seconds", None),
    "num_threads": ("--num-threads", None),
    "data": ("--data", "synthetic"),
    "data_dir": ("--data-dir", None),
    "env": ("--env", ()),
    "fusion_threshold_mb": ("--fusion-threshold-mb", None),
    "cycle_time_ms": ("--cycle-time-ms", None),
    "cache_capacity": ("--cache-capacity", None),
}
"""Flag and default of each, as ``launch.plan`` declares them for ``bench`` and ``run``."""


def recorded_options(manifest: Manifest) -> tuple[tuple[str, str], ...]:
    """Flags with values that are not the default, in the order of ``JOB_OPTIONS``."""
    found: list[tuple[str, str]] = []
    for name, (flag, default) in JOB_OPTIONS.items():
        value = manifest.options.get(name, default)
        if isinstance(value, list | tuple):
            found += [(flag, str(item)) for item in value]
        elif value is not None and value != default:
            found.append((flag, f"{value:g}" if isinstance(value, float) else str(value)))
    return tuple(found)

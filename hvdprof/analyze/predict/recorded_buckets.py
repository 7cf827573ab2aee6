"""The limits of DDP's buckets in a run, as far as it recorded them.

Tested in ``tests/analyze/predict/test_recorded_buckets.py``.
"""

from hvdprof.analyze.predict.ddp_buckets import bucket_limits
from hvdprof.model.run import Run

_DEFAULT = "DDP's default of 1 MiB first, then 25 MiB"


def recorded_buckets(run: Run) -> tuple[tuple[int, ...], str]:
    """The limits in bytes, as ``ddp_buckets`` takes them, and a sentence on where they come from.

    Reference models have ``--fusion-threshold-mb``, scripts what they give to
    ``DistributedDataParallel``.
    """
    facts = run.ddp
    if run.manifest.settings and run.manifest.settings.get("script") is None:
        cap = run.manifest.options.get("fusion_threshold_mb")
    elif facts is None:
        return bucket_limits(None), f"The sizes of DDP's buckets are not recorded: {_DEFAULT}."
    elif facts.has_cap_list:
        said = f"The script gives a size for each bucket of DDP; assumed is {_DEFAULT}."
        return bucket_limits(None), said
    else:
        cap = facts.bucket_cap_mb
    if cap is None:
        return bucket_limits(None), f"DDP's buckets have their recorded sizes: {_DEFAULT}."
    return bucket_limits(float(cap)), f"DDP's buckets have their recorded size of {cap:g} MiB."

"""How many buckets DDP makes of the gradients of a model."""

import math

DEFAULT_BUCKET_MB = 25.0
_FIRST_DEFAULT_MB = 1.0


def num_buckets(payload_bytes: int, num_gradients: int, size_mb: float | None) -> int:
    """About how many buckets hold the gradients; a gradient is never divided.

    Args:
        payload_bytes: Bytes of all gradients as they are sent.
        num_gradients: Their number; 0 where it is not known.
        size_mb: ``bucket_cap_mb``, MiB; None for DDP's own, with a first bucket of 1 MiB.
    """
    whole_mb = payload_bytes / 2**20
    if size_mb is None:
        number = 1 + math.ceil(max(0.0, whole_mb - _FIRST_DEFAULT_MB) / DEFAULT_BUCKET_MB)
    else:
        number = max(1, math.ceil(whole_mb / size_mb))
    return min(number, num_gradients or number)

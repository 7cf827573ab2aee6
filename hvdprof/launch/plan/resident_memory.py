"""Whether the launches of a repeat fit into the memory of a host together."""

PROCESS_BYTES = 600 * 2**20
"""Python, torch, Horovod and the activations of small images."""

BYTES_PER_PARAMETER = 32
"""Weight, gradient, momentum, fusion buffer and what torch holds in reserve, twice over."""

USABLE_SHARE = 0.7
"""The rest is for the page cache and other processes."""


def fit_together(num_ranks: int, num_parameters: int, available_bytes: int | None) -> bool:
    """Whether that many ranks can be resident; not where the memory is unknown.

    The estimate is on the high side: a host that swaps measures nothing.

    Args:
        num_ranks: The ranks of all launches.
        num_parameters: Those of the largest model.
        available_bytes: The memory that new processes can have.
    """
    if available_bytes is None:
        return False
    each_bytes = PROCESS_BYTES + BYTES_PER_PARAMETER * num_parameters
    return num_ranks * each_bytes <= USABLE_SHARE * available_bytes

"""Whether the launches of a repeat fit into the memory of a host together."""

PROCESS_BYTES = 600 * 2**20
"""Python, torch, Horovod and the activations of small images."""

BYTES_PER_PARAMETER = 32
"""Weight, gradient, momentum, fusion buffer and what torch holds in reserve, twice over."""

GROWTH = 1.5
"""A rank that has just begun may take so much more later."""

USABLE_SHARE = 0.7
"""The rest is for the page cache and other processes."""


def have_room(used_bytes: int, num_ranks: int, num_more: int, available_bytes: int | None) -> bool:
    """Whether more ranks fit beside those that run, each as large; not where unknown.

    Args:
        used_bytes: The memory of the ranks that run.
        num_ranks: Their number.
        num_more: The ranks that are to start.
        available_bytes: The memory that new processes can have now.
    """
    if available_bytes is None:
        return False
    return GROWTH * used_bytes / num_ranks * num_more <= USABLE_SHARE * available_bytes


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

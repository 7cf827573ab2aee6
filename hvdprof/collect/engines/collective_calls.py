"""Collectives of ``torch.distributed``: their names, and what is asked at each of their calls."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from hvdprof.collect.steps.step_marks import Collective

ALL_WAIT = (
    "all_reduce",
    "all_reduce_coalesced",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "monitored_barrier",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
)
"""Collectives from which no rank returns before every rank of the group has called them."""

SOME_WAIT = (
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "reduce",
    "scatter",
    "scatter_object_list",
)
"""Collectives from which some ranks return before others have called them."""


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """A function of ``torch.distributed``: what is asked at each of its calls, found out once.

    ``shown`` is how a rank that hangs in it is described. ``group_place`` and ``async_place`` are
    the places of these arguments where they are not given by name.
    """

    shown: Collective
    all_wait: bool
    gathers: bool
    group_place: int
    async_place: int

    @classmethod
    def of(cls, name: str, function: Callable[..., object]) -> "CollectiveCall":
        """That of a function with this name."""
        places = {one: place for place, one in enumerate(inspect.signature(function).parameters)}
        return cls(
            shown=(name, ""),
            all_wait=name in ALL_WAIT,
            gathers=name.startswith("all_gather"),
            group_place=places.get("group", len(places)),
            async_place=places.get("async_op", len(places)),
        )

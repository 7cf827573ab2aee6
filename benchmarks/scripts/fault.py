"""The bug that a script has with ``--fault``.

A fault is ``PLACE:KEY=VALUE:...``, such as ``data:rank=1:ms=30``:

* PLACE: where in the script the time is lost; each script lists its places. ``batch`` is a longer
  batch: a third of the time in forward, the rest in backward.
* rank: a rank, several (``1+3``), ``all``, or ``any``, each rank by itself at random.
* ms: what an affected step takes longer. every: each how manyth step is affected. from: the first
  affected step. chance: share of the steps, at random.
"""

import random
from dataclasses import dataclass

LOG_FOLDER = "SCRIPT_FAULT_LOG"
"""Environment variable: the folder in which ranks note what they lost."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The bug that ``--fault`` switches on; without a place there is none."""

    place: str = ""
    ranks: tuple[int, ...] = ()
    is_any: bool = False
    ms: float = 0.0
    every: int = 1
    first: int = 0
    chance: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "Fault":
        """The fault of an option; of the empty text none.

        Raises:
            ValueError: A key or value is unknown.
        """
        if not text:
            return cls()
        place, *pairs = text.split(":")
        values = dict(pair.split("=", 1) for pair in pairs)
        rank = values.pop("rank", "all")
        fault = cls(
            place=place,
            ranks=() if rank in ("all", "any") else tuple(int(one) for one in rank.split("+")),
            is_any=rank == "any",
            ms=float(values.pop("ms")),
            every=int(values.pop("every", "1")),
            first=int(values.pop("from", "0")),
            chance=float(values.pop("chance", "1")),
        )
        if values:
            raise ValueError(f"unknown in a fault: {', '.join(values)}")
        return fault

    def hits(self, place: str, rank: int, step: int) -> bool:
        """Whether the rank loses time at this place in this step, counted from 0."""
        if place != self.place or (self.ranks and rank not in self.ranks) or step < self.first:
            return False
        if (step + 1) % self.every:
            return False
        if self.chance >= 1:
            return True
        # The same draw on all ranks, unless each of them is hit by itself.
        draw = random.Random(f"{step} {rank if self.is_any else ''}").random()
        return draw < self.chance

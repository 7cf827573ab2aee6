"""Draws training scripts with a bug on a known line from seeds, for ``code_lines.py``.

Lengths of parts, how a step is written, where time is lost and how: all by the seed.
``line_script.py`` writes their files.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

DDP, HOROVOD = ENGINES = ("ddp", "horovod")

SITES: Mapping[str, tuple[str, str]] = {
    "worker": ("data", "`__getitem__` in a DataLoader worker"),
    "getitem": ("data", "`__getitem__` in the rank itself"),
    "worker-collate": ("data", "a collate function in a DataLoader worker"),
    "forward": ("forward", "a layer, in another file"),
    "ops": ("forward", "a function that a layer calls, in a third file"),
    "hook": ("backward", "a hook of a gradient"),
    "autograd": ("backward", "backward of an autograd Function"),
    "update": ("optimizer", "`step` of an optimizer"),
    "report": ("outside", "logging between steps"),
    "collate": ("data", "a collate function in the rank itself"),
}
"""By place of the bug its phase, and what it is."""

WAYS = (
    *("a sleep", "NumPy", "a package", "a call in C that holds the lock"),
    *("a call in C", "a loop in Python"),
)
"""How the time is lost; a package lies in site-packages, as Pillow does."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script; ``rank`` is -1 without a bug. Steps lose ``ms`` each, or all of ``every`` at once.

    ``parts_ms`` are the times of the parts of a step on every rank.
    """

    seed: int
    site: str
    way: str
    engine: str
    rank: int
    ms: float
    every: int
    first: int
    batch: int
    workers: int
    is_module: bool
    has_class: bool
    parts_ms: Mapping[str, float]

    @property
    def name(self) -> str:
        """A name that no other script has."""
        return f"{self.seed}-{self.site}-{self.engine}{self._end}"

    @property
    def is_idle(self) -> bool:
        """Whether its input and its logging take no time on any rank."""
        return not self.parts_ms["data"]

    @property
    def _end(self) -> str:
        clean = "" if self.rank >= 0 else "-clean"
        return f"{clean}-idle" if self.is_idle else clean

    @property
    def phase(self) -> str:
        """The phase of the bug."""
        return SITES[self.site][0]

    def clean(self) -> "Script":
        """Its twin without a bug."""
        return replace(self, rank=-1)

    def idle(self) -> "Script":
        """Its twin without a bug, whose input and logging take no time on any rank."""
        parts_ms = {**self.parts_ms, "data": 0.0, "report": 0.0}
        return replace(self, rank=-1, parts_ms=parts_ms)


def draw(seed: int) -> Script:
    """The script of a seed; 20 seeds in a row have each place of a bug under both engines."""
    rng = random.Random(f"lines {seed}")
    site = list(SITES)[seed % len(SITES)]
    parts_ms = {
        "data": rng.uniform(1, 4),
        "forward": rng.uniform(10, 20),
        "backward": rng.uniform(10, 25),
        "update": rng.uniform(1, 4),
        "report": rng.uniform(0, 2),
    }
    in_worker = site.startswith("worker")
    workers = rng.randint(1, 2) if in_worker else 0
    ms = sum(parts_ms.values()) * rng.uniform(0.3, 0.8)
    pattern = "always" if in_worker else rng.choice(("always", "always", "every", "from"))
    if in_worker:
        # Behind a queue, only what takes longer than the rest of the step is waited for.
        ms = workers * (sum(parts_ms.values()) + ms)
    return Script(
        seed=seed,
        site=site,
        way=rng.choice(WAYS),
        engine=ENGINES[(seed + seed // len(SITES)) % 2],
        rank=rng.randrange(2),
        ms=ms,
        every=rng.randint(5, 12) if pattern == "every" else 1,
        first=rng.randint(50, 80) if pattern == "from" else 0,
        batch=rng.choice((1, 2, 4)),
        workers=workers,
        is_module=rng.random() < 0.25,
        has_class=rng.random() < 0.5,
        parts_ms=parts_ms,
    )

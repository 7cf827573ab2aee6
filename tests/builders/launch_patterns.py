"""Simulated launches with the delays that real jobs have, and their counter-examples.

Steps take about 100 ms. A pattern adds its delay to noise of one of three kinds and says what
there is to find; counter-examples have nothing to find.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hvdprof.analyze.ranks.named_cause import (
    FROM_STEP,
    IRREGULAR,
    PAUSE,
    PERIODIC,
    PERSISTENT,
    STRAGGLER,
    NamedCause,
)
from hvdprof.analyze.steps.step_work import StepWork
from tests.builders.step_works import PARTS_MS, simulated

Times = NDArray[np.float64]
NOISES = ("independent", "correlated", "heavy tails")
NO_PHASE = "mixed"
FOR_A_WHILE, GROWING = "for-a-while", "growing"
ANY_PATTERN = ("from-step", "persistent", "periodic", "irregular", "for-a-while", "growing")


@dataclass(frozen=True, slots=True)
class Truth:
    """What is to be found; ``ranks`` None for any rank, ``period`` NaN where there is none."""

    kind: str
    ranks: tuple[int, ...] | None
    phase: str
    patterns: tuple[str, ...]
    period: float = float("nan")

    def is_of_ranks(self, cause: NamedCause, num_ranks: int) -> bool:
        """Whether a cause has the right kind and ranks."""
        ranks = tuple(range(num_ranks)) if self.ranks is None else self.ranks
        return (cause.kind, cause.ranks) == (self.kind, ranks)


@dataclass(frozen=True, slots=True)
class Scene:
    """Delays [steps, ranks] in ms by phase, and what is to be found in them."""

    extra_ms: Mapping[str, Times] = field(default_factory=dict)
    truths: tuple[Truth, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """The number of steps and ranks of a launch, and its source of chance."""

    num_steps: int
    num_ranks: int
    rng: np.random.Generator

    def nothing(self) -> Times:
        """No delay."""
        return np.zeros((self.num_steps, self.num_ranks))

    def a_rank(self) -> int:
        """Any rank."""
        return int(self.rng.integers(self.num_ranks))

    def every(self, period: int) -> NDArray[np.int64]:
        """Every ``period``-th step from a random one on."""
        return np.arange(int(self.rng.integers(period)), self.num_steps, period)

    def at_random(self, num: int) -> NDArray[np.int64]:
        """So many different steps, ascending, the first one excluded."""
        return np.sort(1 + self.rng.choice(self.num_steps - 1, size=num, replace=False))


def launch_of(scene: Scene, shape: Shape, noise: str, seed: int) -> StepWork:
    """A launch with the delays of a scene and one kind of noise."""
    extra = {name: one.copy() for name, one in scene.extra_ms.items()}
    for name, one in noise_ms(shape, noise).items():
        extra[name] = extra.get(name, 0.0) + one
    return simulated(shape.num_steps, shape.num_ranks, extra_ms=extra, seed=seed)


def noise_ms(shape: Shape, noise: str) -> dict[str, Times]:
    """Noise besides the independent one of 2 % per phase, by phase."""
    size = (shape.num_steps, shape.num_ranks)
    if noise == "correlated":
        return {"backward": 0.05 * PARTS_MS["backward"] * _autoregressive(shape, 0.8)}
    if noise == "heavy tails":
        # Student's t of 3 degrees for the work, and stalls of any rank of up to a fifth of a step.
        work = 0.03 * PARTS_MS["backward"] * shape.rng.standard_t(3, size)
        stalls = (shape.rng.random(size) < 0.02) * shape.rng.uniform(0, 20.0, size)
        return {"backward": np.maximum(work, -20.0), "forward": stalls}
    return {}


def _autoregressive(shape: Shape, correlation: float) -> Times:
    """AR(1) series of mean 0 and variance 1, one for each rank."""
    noise = shape.rng.normal(size=(shape.num_steps, shape.num_ranks))
    series = noise.copy()
    for step in range(1, shape.num_steps):
        series[step] = correlation * series[step - 1]
        series[step] += np.sqrt(1 - correlation**2) * noise[step]
    return series


def checkpoints_of_rank_0(shape: Shape) -> Scene:
    """Rank 0 writes a checkpoint of 0.5 s in every 20th step."""
    extra = shape.nothing()
    extra[shape.every(20), 0] = 500.0
    return Scene({"outside": extra}, (Truth(STRAGGLER, (0,), "outside", (PERIODIC,), 20),))


def pauses_of_all_ranks(shape: Shape) -> Scene:
    """All ranks pause for 0.4 s in every 25th step."""
    extra, steps = shape.nothing(), shape.every(25)
    extra[steps] = 400.0 + shape.rng.normal(0, 20.0, (len(steps), shape.num_ranks))
    ranks = tuple(range(shape.num_ranks))
    return Scene({"outside": extra}, (Truth(PAUSE, ranks, "outside", (PERIODIC,), 25),))


def every_seventh_step(shape: Shape) -> Scene:
    """One rank is late by 80 ms in every seventh step."""
    extra, rank = shape.nothing(), shape.a_rank()
    extra[shape.every(7), rank] = 80.0
    return Scene({"forward": extra}, (Truth(STRAGGLER, (rank,), "forward", (PERIODIC,), 7),))


def every_second_step(shape: Shape) -> Scene:
    """One rank is late by 30 ms in every second step."""
    extra, rank = shape.nothing(), shape.a_rank()
    extra[shape.every(2), rank] = 30.0
    return Scene({"forward": extra}, (Truth(STRAGGLER, (rank,), "forward", (PERIODIC,), 2),))


def any_rank_at_random(shape: Shape) -> Scene:
    """Any rank is late by 150 ms in 7 % of the steps."""
    extra = shape.nothing()
    steps = shape.at_random(max(5, shape.rng.binomial(shape.num_steps, 0.07)))
    extra[steps, shape.rng.integers(shape.num_ranks, size=len(steps))] = 150.0
    return Scene({"forward": extra}, (Truth(STRAGGLER, None, "forward", (IRREGULAR, PERIODIC)),))


def any_rank_every_seventh_step(shape: Shape) -> Scene:
    """A random rank is late by 150 ms in every seventh step."""
    extra, steps = shape.nothing(), shape.every(7)
    extra[steps, shape.rng.integers(shape.num_ranks, size=len(steps))] = 150.0
    truth = Truth(STRAGGLER, None, "forward", (PERIODIC, IRREGULAR), 7)
    return Scene({"forward": extra}, (truth,))


def half_of_the_ranks(shape: Shape) -> Scene:
    """Half of the ranks are slower by 20 ms in every step, as on a slow host."""
    extra, first = shape.nothing(), shape.num_ranks - shape.num_ranks // 2
    extra[:, first:] = 20.0
    ranks = tuple(range(first, shape.num_ranks))
    return Scene({"backward": extra}, (Truth(STRAGGLER, ranks, "backward", (PERSISTENT,)),))


def two_ranks_pause_together(shape: Shape) -> Scene:
    """The ranks of a host, a quarter of all, pause for 0.3 s in every 20th step."""
    num = max(1, shape.num_ranks // 4)
    extra = shape.nothing()
    extra[shape.every(20), :num] = 300.0
    ranks = tuple(range(num))
    return Scene({"outside": extra}, (Truth(STRAGGLER, ranks, "outside", (PERIODIC,), 20),))


def slow_from_a_step_on(shape: Shape) -> Scene:
    """One rank is slower by 25 ms from a step on."""
    extra, rank = shape.nothing(), shape.a_rank()
    extra[int(shape.num_steps * shape.rng.uniform(0.3, 0.6)) :, rank] = 25.0
    return Scene({"forward": extra}, (Truth(STRAGGLER, (rank,), "forward", (FROM_STEP,)),))


def garbage_collection_of_a_rank(shape: Shape) -> Scene:
    """One rank pauses for 0.12 to 0.2 s in 6 % of the steps, at random."""
    extra, rank = shape.nothing(), shape.a_rank()
    steps = shape.at_random(max(5, round(0.06 * shape.num_steps)))
    extra[steps, rank] = shape.rng.uniform(120.0, 200.0, len(steps))
    truth = Truth(STRAGGLER, (rank,), "forward", (IRREGULAR, PERIODIC))
    return Scene({"forward": extra}, (truth,))


def page_cache_pauses_of_all(shape: Shape) -> Scene:
    """All ranks pause for 0.2 to 0.4 s in 4 % of the steps, at random."""
    extra = shape.nothing()
    steps = shape.at_random(max(4, round(0.04 * shape.num_steps)))
    extra[steps] = shape.rng.uniform(200.0, 400.0, (len(steps), 1))
    ranks = tuple(range(shape.num_ranks))
    return Scene({"data": extra}, (Truth(PAUSE, ranks, "data", (IRREGULAR, PERIODIC)),))


def slow_data_worker(shape: Shape) -> Scene:
    """One rank's two data workers need 130 ms per batch behind a queue of four batches."""
    extra, rank = shape.nothing(), shape.a_rank()
    extra[:, rank] = _stalls_of_queue(shape, [130.0])[:, 0]
    patterns = (FROM_STEP, PERSISTENT, PERIODIC, IRREGULAR)
    return Scene({"data": extra}, (Truth(STRAGGLER, (rank,), "data", patterns),))


def longer_last_batch_of_all(shape: Shape) -> Scene:
    """The last step of each epoch of 12 steps takes all ranks 120 % longer."""
    extra = shape.nothing()
    extra[shape.every(12)] = 1.0
    ranks = tuple(range(shape.num_ranks))
    return Scene(
        {name: 1.2 * PARTS_MS[name] * extra for name in ("forward", "backward")},
        (Truth(PAUSE, ranks, NO_PHASE, (PERIODIC,), 12),),
    )


def longer_last_batch_of_one(shape: Shape) -> Scene:
    """The last step of each epoch of 12 steps takes one rank 120 % longer."""
    extra, rank = shape.nothing(), shape.a_rank()
    extra[shape.every(12), rank] = 1.0
    return Scene(
        {name: 1.2 * PARTS_MS[name] * extra for name in ("forward", "backward")},
        (Truth(STRAGGLER, (rank,), NO_PHASE, (PERIODIC,), 12),),
    )


def after_evaluation(shape: Shape) -> Scene:
    """All ranks evaluate for 0.6 s in every 30th step; that step and two more are 40 ms longer."""
    pause, slow = shape.nothing(), shape.nothing()
    for step in shape.every(30):
        pause[step] = 600.0
        slow[step : step + 3] = 40.0
    ranks = tuple(range(shape.num_ranks))
    return Scene(
        {"outside": pause, "forward": slow}, (Truth(PAUSE, ranks, "outside", (PERIODIC,), 30),)
    )


def slow_rank_and_checkpoints(shape: Shape) -> Scene:
    """The last rank is slower by 15 ms, and rank 0 writes checkpoints."""
    slow, last = shape.nothing(), shape.num_ranks - 1
    slow[:, last] = 15.0
    checkpoints = checkpoints_of_rank_0(shape)
    truth = Truth(STRAGGLER, (last,), "backward", (PERSISTENT,))
    return Scene({**checkpoints.extra_ms, "backward": slow}, (*checkpoints.truths, truth))


def _stalls_of_queue(shape: Shape, per_batch_ms: list[float]) -> Times:
    """Waits for batches behind queues of four, made by two workers of each of these ranks."""
    step_ms, depth, num_workers = 100.0, 4, 2
    num, chance = shape.num_steps, 0.1
    stalls = np.zeros((num, len(per_batch_ms)))
    asked = np.zeros(num + 1)
    ready = np.zeros((num, len(per_batch_ms)))
    for step in range(num):
        for column, mean_ms in enumerate(per_batch_ms):
            # A worker begins its next batch when it is free and the queue has room.
            free = ready[step - num_workers, column] if step >= num_workers else 0.0
            room = asked[step - depth] if step >= depth else 0.0
            takes = num_workers * mean_ms * shape.rng.uniform(1 - chance, 1 + chance)
            ready[step, column] = max(free, room) + takes
            if step:
                ready[step, column] = max(ready[step, column], ready[step - 1, column])
            stalls[step, column] = max(0.0, ready[step, column] - asked[step])
        asked[step + 1] = asked[step] + step_ms + stalls[step].max()
    return stalls


def bursts_of_one_rank(shape: Shape) -> Scene:
    """One rank waits 70 to 95 ms for data in a third of the steps, in bursts."""
    extra, rank = shape.nothing(), shape.a_rank()
    step = int(shape.rng.integers(4, 8))
    while step < shape.num_steps:
        for _ in range(int(shape.rng.integers(2, 6))):
            if step < shape.num_steps:
                extra[step, rank] = shape.rng.uniform(70.0, 95.0)
            step += int(shape.rng.integers(1, 3))
        step += int(shape.rng.integers(1, 5))
    return Scene({"data": extra}, (Truth(STRAGGLER, (rank,), "data", ANY_PATTERN),))


def heavy_tailed_delay(shape: Shape) -> Scene:
    """One rank is late by 30 ms in the mean in every step, lognormal with sigma 1."""
    extra, rank = shape.nothing(), shape.a_rank()
    extra[:, rank] = shape.rng.lognormal(np.log(30.0) - 0.5, 1.0, shape.num_steps)
    return Scene({"data": extra}, (Truth(STRAGGLER, (rank,), "data", ANY_PATTERN),))


def growing_delay(shape: Shape) -> Scene:
    """One rank is late by a time that grows from 0 to 60 ms."""
    extra, rank = shape.nothing(), shape.a_rank()
    extra[:, rank] = np.linspace(0, 60.0, shape.num_steps)
    return Scene({"backward": extra}, (Truth(STRAGGLER, (rank,), "backward", (GROWING,)),))


def slow_for_a_while(shape: Shape) -> Scene:
    """One rank is slower by 50 ms in a quarter of the launch, in its middle."""
    extra, rank = shape.nothing(), shape.a_rank()
    first = int(shape.num_steps * shape.rng.uniform(0.2, 0.5))
    extra[first : first + shape.num_steps // 4, rank] = 50.0
    return Scene({"backward": extra}, (Truth(STRAGGLER, (rank,), "backward", (FOR_A_WHILE,)),))


def slow_from_a_step_on_and_bursts(shape: Shape) -> Scene:
    """One rank is slower by 25 ms in forward from a step on, another waits for data in bursts."""
    slow, waits = shape.nothing(), shape.nothing()
    first, second = (int(rank) for rank in shape.rng.permutation(shape.num_ranks)[:2])
    slow[int(shape.num_steps * shape.rng.uniform(0.3, 0.5)) :, first] = 25.0
    steps = shape.at_random(round(0.15 * shape.num_steps))
    waits[steps, second] = shape.rng.uniform(80.0, 120.0, len(steps))
    truths = (
        Truth(STRAGGLER, (first,), "forward", (FROM_STEP, PERSISTENT)),
        Truth(STRAGGLER, (second,), "data", (IRREGULAR, PERIODIC)),
    )
    return Scene({"forward": slow, "data": waits}, truths)


def one_long_stall(shape: Shape) -> Scene:
    """One rank stalls once, for a quarter of the launch."""
    extra, rank = shape.nothing(), shape.a_rank()
    extra[int(shape.rng.integers(3, shape.num_steps)), rank] = 25.0 * shape.num_steps
    return Scene({"outside": extra}, (Truth(STRAGGLER, (rank,), "outside", (IRREGULAR,)),))


def two_checkpoints(shape: Shape) -> Scene:
    """Rank 0 pauses for 0.3 s in every ninth step, the last rank for 0.2 s in every fifth."""
    extra, last = shape.nothing(), shape.num_ranks - 1
    extra[shape.every(9), 0] = 300.0
    extra[shape.every(5), last] += 200.0
    truths = (
        Truth(STRAGGLER, (0,), "outside", (PERIODIC,), 9),
        Truth(STRAGGLER, (last,), "outside", (PERIODIC,), 5),
    )
    return Scene({"outside": extra}, truths)


def counter_of_each_epoch(shape: Shape) -> Scene:
    """Rank 0 writes 0.3 s long in every seventh step of each epoch of 24: the counter restarts."""
    extra = shape.nothing()
    for epoch in range(0, shape.num_steps, 24):
        extra[epoch + 7 : min(epoch + 24, shape.num_steps) : 7, 0] = 300.0
    return Scene({"outside": extra}, (Truth(STRAGGLER, (0,), "outside", (PERIODIC, IRREGULAR)),))


PATTERNS: tuple[Callable[[Shape], Scene], ...] = (
    checkpoints_of_rank_0,
    pauses_of_all_ranks,
    every_seventh_step,
    every_second_step,
    any_rank_at_random,
    any_rank_every_seventh_step,
    half_of_the_ranks,
    two_ranks_pause_together,
    slow_from_a_step_on,
    garbage_collection_of_a_rank,
    page_cache_pauses_of_all,
    slow_data_worker,
    longer_last_batch_of_all,
    longer_last_batch_of_one,
    after_evaluation,
    slow_rank_and_checkpoints,
    bursts_of_one_rank,
    heavy_tailed_delay,
    growing_delay,
    slow_for_a_while,
    slow_from_a_step_on_and_bursts,
    one_long_stall,
    two_checkpoints,
    counter_of_each_epoch,
)


def nothing(_: Shape) -> Scene:
    """Noise alone."""
    return Scene()


def all_input_bound(shape: Shape) -> Scene:
    """All ranks wait for their own input in every step, 80 ms in the mean."""
    return Scene({"data": 80.0 * shape.rng.uniform(0.8, 1.2, shape.nothing().shape)})


def all_input_bound_in_bursts(shape: Shape) -> Scene:
    """The data workers of all ranks are too slow alike, behind queues."""
    return Scene({"data": _stalls_of_queue(shape, [150.0] * shape.num_ranks)})


def steps_of_different_length(shape: Shape) -> Scene:
    """Sequences of all ranks differ from step to step alike (lognormal, 30 %)."""
    factor = np.exp(shape.rng.normal(0, 0.3, (shape.num_steps, 1))) - 1
    alike = np.ones((1, shape.num_ranks))
    return Scene({name: PARTS_MS[name] * factor * alike for name in ("forward", "backward")})


def uneven_sequences(shape: Shape) -> Scene:
    """Sequences of each rank differ from step to step (lognormal, 20 %)."""
    factor = np.exp(shape.rng.normal(0, 0.2, shape.nothing().shape)) - 1
    return Scene({name: PARTS_MS[name] * factor for name in ("forward", "backward")})


def shorter_last_batch_of_all(shape: Shape) -> Scene:
    """The last step of each epoch of 12 steps is half as long on all ranks."""
    extra = shape.nothing()
    extra[shape.every(12)] = 1.0
    return Scene({name: -0.5 * PARTS_MS[name] * extra for name in ("forward", "backward")})


def shorter_last_batch_of_one(shape: Shape) -> Scene:
    """The last step of each epoch of 12 steps is half as long on one rank."""
    extra = shape.nothing()
    extra[shape.every(12), shape.a_rank()] = 1.0
    return Scene({name: -0.5 * PARTS_MS[name] * extra for name in ("forward", "backward")})


def all_ranks_drift(shape: Shape) -> Scene:
    """All ranks become slower by a third over the launch."""
    ramp = np.linspace(0, 30.0, shape.num_steps)[:, None]
    return Scene({"backward": ramp * np.ones((1, shape.num_ranks))})


def round_robin(shape: Shape) -> Scene:
    """One rank after the other is late by 15 ms."""
    extra = shape.nothing()
    extra[np.arange(shape.num_steps), np.arange(shape.num_steps) % shape.num_ranks] = 15.0
    return Scene({"data": extra})


def cheap_checkpoints(shape: Shape) -> Scene:
    """Rank 0 logs for 40 ms in every 20th step, 2 % of the time."""
    extra = shape.nothing()
    extra[shape.every(20), 0] = 40.0
    return Scene({"outside": extra})


def slightly_slow_rank(shape: Shape) -> Scene:
    """One rank is slower by 2 ms."""
    extra = shape.nothing()
    extra[:, shape.a_rank()] = 2.0
    return Scene({"forward": extra})


COUNTER_EXAMPLES: tuple[Callable[[Shape], Scene], ...] = (
    nothing,
    all_input_bound,
    all_input_bound_in_bursts,
    steps_of_different_length,
    uneven_sequences,
    shorter_last_batch_of_all,
    shorter_last_batch_of_one,
    all_ranks_drift,
    round_robin,
    cheap_checkpoints,
    slightly_slow_rank,
)

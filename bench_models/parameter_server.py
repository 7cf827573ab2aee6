"""Keras twins under ``ParameterServerStrategy``: workers, parameter server and coordinator.

Each is a process of its own with its place in ``TF_CONFIG``. The coordinator hands steps to
any worker that is free, and no worker waits for the others: a recorded step is as many ended steps
of workers as there are workers.
"""

import collections
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

from hvdprof import collect
from hvdprof.bench_models.keras_training import Keras, KerasJob, prepared_tensorflow, replicas_here
from hvdprof.bench_models.registry import model_named
from hvdprof.collect import _hooks
from hvdprof.rundir.plan import KERAS_TWIN, TF_PARAMETER_SERVER, Plan, Segment
from hvdprof.units import milliseconds

_AHEAD = 2
"""Steps that are handed out per worker, so that none waits for the coordinator."""

CHIEF, SERVER, WORKER = "chief", "ps", "worker"


def serve_or_coordinate(plan: Plan) -> "ParameterServerJob":
    """The job, in the coordinator; other processes serve it until they are ended from outside."""
    # Without it a server waits for one that is gone.
    os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")
    tf = prepared_tensorflow(plan.num_threads)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    cluster = resolver.cluster_spec()
    if resolver.task_type in (WORKER, SERVER):
        server = tf.distribute.Server(
            cluster, job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
        )
        server.join()
    return ParameterServerJob(plan, tf, resolver, cluster.num_tasks(WORKER))


class ParameterServerJob(KerasJob):
    """The coordinator, which records for all workers as rank 0."""

    def __init__(self, plan: Plan, tf: ModuleType, resolver: Keras, num_workers: int) -> None:
        self._num_workers = num_workers
        strategy = tf.distribute.ParameterServerStrategy(resolver)
        self._coordinator: Keras = tf.distribute.coordinator.ClusterCoordinator(strategy)
        self._steps_by_worker: collections.Counter[int] = collections.Counter()
        super().__init__(plan, tf, strategy)

    @property
    def size(self) -> int:
        """The number of workers."""
        return self._num_workers

    def run(self, segment: Segment) -> tuple[int, float]:
        """Train one segment; its recorded steps after the warm-up and their mean length in ns."""
        num_steps, mean_ns = super().run(segment)
        self._coordinator.join()
        _say_each_worker(segment, list(self._steps_by_worker.values()), num_steps * mean_ns)
        return num_steps, mean_ns

    def _train(
        self, step: Callable[[], float], count: int, segment: Segment, *, warmup: bool
    ) -> int:
        self._steps_by_worker.clear()
        return super()._train(step, count, segment, warmup=warmup)

    def _step_of(self, segment: Segment) -> Callable[[], float]:
        tf, strategy = self._tf, self._strategy
        model = model_named(segment.model.removeprefix(KERAS_TWIN))
        replica = self._replica(segment, model)
        shape = (segment.batch_size, segment.image_size, segment.image_size, model.in_channels)

        def batches() -> Keras:
            # Seeded by nothing, so that each worker draws a name of its own.
            name = tf.raw_ops.RandomUniformInt(
                shape=tf.constant([], tf.int32),
                minval=tf.constant(0, tf.int64),
                maxval=tf.constant(2**62, tf.int64),
            )
            images = tf.random.normal(shape)
            labels = tf.random.uniform(shape[:1], 0, model.num_classes, tf.int64)
            return tf.data.Dataset.from_tensors((name, images, labels)).repeat()

        iterator = iter(self._coordinator.create_per_worker_dataset(batches))

        @tf.function  # type: ignore[untyped-decorator]
        def train(iterator: Keras) -> tuple[Keras, Keras]:
            name, images, labels = next(iterator)
            return name, strategy.run(replica, args=(images, labels))

        def schedule() -> Keras:
            return self._coordinator.schedule(train, args=(iterator,))

        handed_out = collections.deque(schedule() for _ in range(_AHEAD * self.size))

        def step() -> float:
            _hooks.blocked_unseen()
            losses = []
            for _ in range(self.size):
                name, loss = handed_out.popleft().fetch()
                handed_out.append(schedule())
                self._steps_by_worker[int(name)] += 1
                losses.append(float(loss))
            return sum(losses) / len(losses)

        return step

    def _mean_of_all(self, seconds: float) -> float:
        return seconds


def _say_each_worker(segment: Segment, counts: Sequence[int], length_ns: float) -> None:
    each = (f"{count} steps of {milliseconds(length_ns / count)}" for count in sorted(counts))
    sys.stdout.write(f"{segment.id}, each worker: {', '.join(each)}\n")


def run_plan(plan: Plan) -> int:
    """Run the segments of a plan as one process of it; the number of replicas that were joined."""
    if plan.segments[0].engine == TF_PARAMETER_SERVER:
        job: KerasJob = serve_or_coordinate(plan)
    else:
        job = replicas_here(plan)
    if job.size == plan.size:
        for segment in plan.segments:
            num_steps, mean_ns = job.run(segment)
            if job.rank == 0:
                sys.stdout.write(
                    f"{segment.id}: {segment.model}, np {plan.size}, {num_steps} steps, "
                    f"{milliseconds(mean_ns)} per step\n"
                )
                sys.stdout.flush()
    collect.stop()
    return job.size

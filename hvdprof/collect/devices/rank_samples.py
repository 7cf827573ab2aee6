"""Samples the process of a rank, its GPU, and on the first rank of a host the host, once a second.

Each rank samples itself, because torch's memory is known in its process alone, and which GPU is its
own as well. What all ranks of a host share is read once.
"""

import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from hvdprof.collect.devices.copy_source import BATCH_WAITS, COPY_WAITS
from hvdprof.collect.devices.host_source import HostSource, ProcessSource
from hvdprof.collect.devices.nvml import NvmlError, NvmlGpu
from hvdprof.collect.devices.sample_window import (
    LONGEST_NS,
    LONGEST_WATCHED_NS,
    SampleWindow,
    Source,
    Values,
)
from hvdprof.collect.devices.torch_device import (
    RocmGpu,
    StepFlops,
    TorchDevice,
    TorchMemory,
    is_rocm,
)
from hvdprof.collect.guarded_context import print_problem
from hvdprof.collect.host_facts import Identity
from hvdprof.collect.recorder import Recorder
from hvdprof.collect.steps.header import LineWriter
from hvdprof.collect.steps.step_sums import WindowPace
from hvdprof.collect.turn_gate import TurnGate
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.recording.sample_format import DEVICE, FLOPS, MOST_HZ, SAMPLES_HZ, USUAL_HZ

LONGEST_END_S = 2.0
"""Until then the thread has to write its rest, where the recording ends."""


def sample_machine(
    recorder: Recorder, folder: Path, identity: Identity, device: str, clock: Callable[[], int]
) -> None:
    """Sample until the recording ends; says so where that fails."""
    try:
        hz = asked_hz()
        if not hz:
            return
        gpu = TorchDevice(device)
        sources: list[Source] = [ProcessSource(), BATCH_WAITS]
        if device.startswith("cuda"):
            own = RocmGpu(gpu, print_problem) if is_rocm() else GpuSource(gpu)
            sources += [TorchMemory(gpu), own, COPY_WAITS]
        if os.environ.get(FLOPS) == "1":
            recorder.count_flops(counter := StepFlops(gpu, recorder.report_problem))
            sources.append(counter)
        if identity.local_rank == 0:
            sources.append(HostSource())
        file = LineWriter(folder / PassPaths(folder.parent).samples_file(identity.rank).name)
        pace = WindowPace(folder)
        sampler = MachineSampler(
            *(file, sources, hz, recorder.report_problem, clock), is_watched=pace.is_watched
        )
        recorder.at_end.append(sampler.close)
        sampler.start()
    except Exception as error:
        print_problem(f"the machine is not sampled: {type(error).__name__}: {error}")


def asked_hz(environment: Mapping[str, str] = os.environ) -> float:
    """Samples per second that ``HVDPROF_SAMPLES`` asks for; ``USUAL_HZ`` without it.

    Raises:
        ValueError: It is no number, or not from 0 to 10.
    """
    hz = float(environment.get(SAMPLES_HZ) or USUAL_HZ)
    if not 0 <= hz <= MOST_HZ:
        raise ValueError(f"{SAMPLES_HZ}={hz:g} is not from 0 to {MOST_HZ:g}")
    return hz


class GpuSource(Source):
    """The GPU of this process, by NVML, from when torch computes on it."""

    scope = DEVICE

    def __init__(self, gpu: TorchDevice, opened: Callable[[str], NvmlGpu] = NvmlGpu) -> None:
        self._gpu = gpu
        self._opened = opened
        self._device: NvmlGpu | None = None
        self._is_missing = False

    def read(self) -> Values:
        """The values now; none without a GPU, or without its library."""
        if self._device is None and not self._is_missing and (uuid := self._gpu.uuid()):
            try:
                self._device = self._opened(uuid)
                self.device = self._device.name
            except NvmlError as error:
                self._is_missing = True
                print_problem(f"the GPU is not sampled: {error}")
        return self._device.read() if self._device else {}

    def close(self) -> None:
        """Give the library back."""
        if self._device is not None:
            self._device.close()


class MachineSampler:
    """The thread that samples, from ``start`` to ``close``.

    Args:
        file: Takes the lines; it is closed at the end.
        sources: What is sampled.
        hz: Samples per second.
        report: Called with a message where the sampling ends by a failure.
        clock: Nanoseconds.
        is_watched: Whether a watcher follows the job, so that windows are shorter.
    """

    def __init__(
        self,
        file: LineWriter,
        sources: Iterable[Source],
        hz: float,
        report: Callable[[str], None],
        clock: Callable[[], int],
        is_watched: Callable[[], bool] = bool,
    ) -> None:
        self._file, self._clock, self._report = file, clock, report
        self._is_watched = is_watched
        self._gap_s = 1 / hz
        self._windows = [SampleWindow(source, clock()) for source in sources]
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._is_paused = False
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="hvdprof machine", daemon=True)

    def start(self) -> None:
        """Begin to sample.

        Raises:
            RuntimeError: No thread can be started.
        """
        self._thread.start()
        TurnGate.pausing.append(self)
        # For a script that ends without stop().
        atexit.register(self.close)

    def close(self) -> None:
        """End the sampling and wait until the rest is written; a second call does nothing."""
        # In a forked process there is no such thread.
        if os.getpid() == self._pid:
            self._leave_gate()
            self._over.set()
            self._thread.join(LONGEST_END_S)
            atexit.unregister(self.close)

    def pause(self) -> None:
        """Write what the windows hold, and leave out what follows, until ``resume``."""
        with self._lock, self._reported():
            self._sample(is_last=True)
            self._is_paused = True

    def resume(self) -> None:
        """Begin new windows."""
        with self._lock, self._reported():
            for window in self._windows:
                window.begin(self._clock())
            self._is_paused = False

    def sample(self, *, is_last: bool = False) -> None:
        """Take a sample of each source, and write the windows that are long enough.

        Raises:
            OSError: The file took no more.
        """
        with self._lock:
            if not self._is_paused:
                self._sample(is_last=is_last)

    def _sample(self, *, is_last: bool) -> None:
        longest_ns = LONGEST_WATCHED_NS if self._is_watched() else LONGEST_NS
        for window in self._windows:
            now_ns = self._clock()
            window.sample(now_ns)
            if (line := window.line(now_ns, longest_ns, is_last=is_last)) is not None:
                self._file.write(line)

    def _run(self) -> None:
        with self._reported():
            while not self._over.wait(self._gap_s):
                self.sample()
            self.sample(is_last=True)
            self._file.close()
            for window in self._windows:
                window.close()

    @contextlib.contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            # The disk is full, or the recording is over.
            self._leave_gate()
            with contextlib.suppress(Exception):
                self._report(f"the machine is no longer sampled: {type(error).__name__}: {error}")

    def _leave_gate(self) -> None:
        if self in TurnGate.pausing:
            TurnGate.pausing.remove(self)

"""Samples the training thread of a rank beside its recorder."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from hvdprof.collect.guarded_context import print_problem
from hvdprof.collect.lines.event_answers import EventAnswers
from hvdprof.collect.lines.line_window import LineFile, sampling_line
from hvdprof.collect.lines.named_calls import NamedCalls
from hvdprof.collect.lines.sampler import LineSampler, Places, asked_hz
from hvdprof.collect.lines.step_samples import StepSamples
from hvdprof.collect.lines.user_code import UserCode
from hvdprof.collect.lines.worker_lines import PARENT, stop_worker
from hvdprof.collect.recorder import Recorder
from hvdprof.collect.steps.header import LineWriter
from hvdprof.collect.turn_gate import TURNS
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.recording.line_format import MAIN_PROCESS, CallLine

BYTES_AT_ONCE, BYTES_PER_HOUR = 60_000, 240_000


def sample_rank(recorder: Recorder, folder: Path, rank: int, clock: Callable[[], int]) -> None:
    """Sample the thread that trains until the recording ends; says so where that fails."""
    try:
        stop_worker()
        hz = asked_hz()
        PARENT.know(folder, rank)
        if hz:
            _start(recorder, folder, rank, clock, hz)
    except Exception as error:
        print_problem(f"no lines are sampled: {type(error).__name__}: {error}")


def _start(
    recorder: Recorder, folder: Path, rank: int, clock: Callable[[], int], hz: float
) -> None:
    writer = LineWriter(folder / PassPaths(folder.parent).lines_file(rank).name)
    now_ns = clock()
    writer.write(sampling_line(rank, MAIN_PROCESS, hz, now_ns))
    user_code = UserCode(sys.modules.get("__main__"))
    places = Places(user_code)
    file = LineFile(writer, places.names, now_ns, BYTES_AT_ONCE, BYTES_PER_HOUR)
    calls = NamedCalls(recorder.moment, user_code, clock)
    answers = EventAnswers(
        *(folder, rank, recorder.moment, recorder.profile_steps, recorder.report_problem, clock)
    )

    def over() -> Iterator[CallLine]:
        answers.look()
        return calls.over()

    samples = StepSamples(
        file,
        recorder.finished(),
        recorder.moment,
        over,
        is_on_host=recorder.is_on_host,
        takes_turns=TURNS in os.environ,
    )
    sampler = LineSampler(places, samples, hz, recorder.report_problem, clock)
    calls.hook()
    recorder.at_end += [calls.remove, sampler.close, answers.close]
    sampler.start()

"""How a recording begins: from the folder and the identity of a rank to its session."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from hvdprof.collect._hooks import PROCESS
from hvdprof.collect.clock.clock_exchange import ClockTurns, RankGroup, single_rank
from hvdprof.collect.clock.job_group import rank_group
from hvdprof.collect.devices.rank_samples import sample_machine
from hvdprof.collect.guarded_context import print_problem
from hvdprof.collect.host_facts import (
    Identity,
    identity_from_distributed,
    identity_from_environment,
    identity_from_horovod,
)
from hvdprof.collect.injection import InjectingSession
from hvdprof.collect.lines.rank_lines import sample_rank
from hvdprof.collect.recorder import Recorder
from hvdprof.collect.session import Session, SilentSession
from hvdprof.collect.standing import Watched
from hvdprof.collect.steps.header import LineWriter, header_line
from hvdprof.collect.steps.time_source import time_source_of
from hvdprof.collect.watchdog import watch_over
from hvdprof.errors import UsageError
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.recording.fault_plan import (
    FAULTS,
    ClockFault,
    Fault,
    clock_of,
    parse_faults,
    to_text,
)
from hvdprof.rundir.recording.line_format import LIGHT
from hvdprof.rundir.recording.recorder_format import INJECTED

RECORDER_DIR = "HVDPROF_RECORDER_DIR"
CLOCK_EXCHANGE = "HVDPROF_CLOCK_EXCHANGE"

_SINGLE = Identity(rank=0, size=1, local_rank=0, local_size=1)


def own_identity() -> Identity:
    """The identity from the engine, else from the environment, else that of a single process."""
    engine = identity_from_horovod() or identity_from_distributed()
    return engine or identity_from_environment() or _SINGLE


def faults_from_environment() -> tuple[Fault | ClockFault, ...]:
    """The faults of ``HVDPROF_FAULTS``; none, with a line on stderr, where it is damaged."""
    try:
        return parse_faults(os.environ.get(FAULTS, ""))
    except UsageError as error:
        print_problem(f"no faults are injected: {error.message}")
        return ()


def with_faults(
    given: Sequence[Fault | ClockFault], identity: Identity, install: Callable[[Session], None]
) -> Callable[[Session], None]:
    """An ``install`` that puts the faults of a rank around the first session and its successors."""
    faults = [fault for fault in given if isinstance(fault, Fault)]
    if not faults:
        return install
    injecting: list[InjectingSession] = []

    def install_injecting(session: Session) -> None:
        if injecting:
            # The recording has ended; hooks and counts of steps stay.
            injecting[0].replace_inner(session)
            return
        injecting.append(InjectingSession(session, faults, identity))
        install(injecting[0])

    return install_injecting


def open_session(
    folder: Path, identity: Identity, device: str, install: Callable[[Session], None]
) -> None:
    """Install the session of a rank: a recorder, or a silent one where nothing can be recorded.

    Args:
        folder: The folder of the recorder files.
        identity: Which rank this is.
        device: Where the model computes.
        install: Called with the session, and with its successor when the recording ends.
    """
    faults = faults_from_environment()
    of_clocks = [fault for fault in faults if isinstance(fault, ClockFault)]
    clock = clock_of(of_clocks, identity.rank)
    # Ranks of one host share a clock, unless a fault skews it for one of them.
    always = bool(of_clocks) or os.environ.get(CLOCK_EXCHANGE) == "always"
    clocks = ClockTurns(lambda: _group_of(identity, always), force_tcp=always, clock=clock)
    try:
        file = LineWriter(folder / PassPaths(folder.parent).recorder_file(identity.rank).name)
        file.write(header_line(identity, device, clock, PROCESS.engine))
        if faults:
            message = f"{INJECTED}{to_text(faults)}"
            file.write({"kind": "problem", "message": message})
            install = with_faults(faults, identity, install)
        source, is_light = time_source_of(device, clock), os.environ.get(LIGHT) == "1"
        recorder = Recorder(file, source, clocks, install, clock, is_light=is_light)
    except Exception as error:
        print_problem(f"nothing is recorded: {type(error).__name__}: {error}")
        silent = SilentSession(clocks)
        install(silent)
        silent.take_turn()
        return
    install(recorder)
    watched = Watched(recorder.standing, recorder.write_at_rest, lambda: PROCESS.loop_standing())
    watch_over(watched, folder, identity.rank)
    sample_rank(recorder, folder, identity.rank, clock)
    sample_machine(recorder, folder, identity, device, clock)
    recorder.exchange_clocks("start")


def _group_of(identity: Identity, always: bool) -> RankGroup:
    # One host has one clock, so the job gets no collective that it may not expect: some of its
    # ranks may not train, or may have joined already.
    if identity.local_size == identity.size and not always:
        return single_rank()
    return rank_group(identity)

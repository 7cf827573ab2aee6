"""``hvdprof.bench_models.train`` with a fault in one rank at one step, as a script.

    python tests/builders/faulty_train.py --plan plan.json
        --fault kill|raise|hang|delay --fault-rank 1 --fault-segment ID --fault-step 3

``kill`` is SIGKILL to itself, after steps that each sleep for ``--fault-delay-s``; ``raise`` is an
exception; ``hang`` sleeps for an hour; ``delay`` sleeps for ``--fault-delay-s`` in this and every
later step of the segment. The fault strikes at the begin of the step, inside it.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hvdprof import collect
from hvdprof.bench_models import train
from hvdprof.collect.session_factory import own_identity


class InjectedError(RuntimeError):
    """The exception that ``--fault raise`` raises."""


class FaultyCalls:
    """Stands in for ``collect.segment`` and ``collect.step`` and counts the steps."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._segment, self._step = collect.segment, collect.step
        self._in_segment = False
        self._next_step = 0

    def segment(self, segment_id):
        self._in_segment = segment_id == self._options.fault_segment
        self._next_step = 0
        return self._segment(segment_id)

    def step(self, **values):
        number, self._next_step = self._next_step, self._next_step + 1
        return _Struck(self._step(**values), lambda: self._strike(number))

    def _strike(self, number: int) -> None:
        options = self._options
        if not self._in_segment or own_identity().rank != options.fault_rank:
            return
        delays_before = options.fault == "kill"
        delays_after = options.fault == "delay" and number >= options.fault_step
        if delays_before or delays_after:
            time.sleep(options.fault_delay_s)
        if number != options.fault_step:
            return
        if options.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif options.fault == "hang":
            time.sleep(3600)
        elif options.fault == "raise":
            raise InjectedError(f"injected at step {number}")


class _Struck:
    """The context of a step with something that happens right after its begin."""

    def __init__(self, context, strike) -> None:
        self._context = context
        self._strike = strike

    def __enter__(self) -> None:
        self._context.__enter__()
        try:
            self._strike()
        except BaseException:
            self._context.__exit__(*sys.exc_info())
            raise

    def __exit__(self, *error) -> None:
        self._context.__exit__(*error)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", choices=("kill", "raise", "hang", "delay"), required=True)
    parser.add_argument("--fault-rank", type=int, required=True)
    parser.add_argument("--fault-step", type=int, required=True)
    parser.add_argument("--fault-segment", required=True)
    parser.add_argument("--fault-delay-s", type=float, default=0.0)
    options, rest = parser.parse_known_args()
    calls = FaultyCalls(options)
    collect.segment, collect.step = calls.segment, calls.step
    return train.main(rest)


if __name__ == "__main__":
    sys.exit(main())

"""What commands that measure print while they wait for an idle machine."""

from typing import IO, TYPE_CHECKING

from hvdprof import units

if TYPE_CHECKING:
    from hvdprof import api

_EVERY = 30
"""Looks between two lines."""


def wait_for_idle(measurement: "api.Measurement", stream: IO[str] | None) -> None:
    """Wait where ``--wait-for-quiet`` asks for it, with the load on the stream now and then.

    Raises:
        EnvironmentNotReadyError: The machine was never idle, or its load is not known.
    """
    looks = 0

    def show(cores: float) -> None:
        nonlocal looks
        if stream is not None and looks % _EVERY == 0:
            stream.write(f"hvdprof: waiting; other processes keep {cores:.1f} cores busy\n")
            stream.flush()
        looks += 1

    waited_s = measurement.wait_for_idle(on_look=show)
    if waited_s and stream is not None:
        stream.write(f"hvdprof: idle after {units.duration(waited_s)}\n")

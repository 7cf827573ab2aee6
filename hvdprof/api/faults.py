"""Faults that are injected into ranks on purpose: fault_environment."""

from collections.abc import Sequence

from hvdprof.collect.faults.fault_plan import FAULTS, parse_fault, to_text


def fault_environment(faults: Sequence[str]) -> dict[str, str]:
    """The environment variable that injects faults into the ranks of a command.

    Args:
        faults: Faults such as ``sleep:phase=backward,rank=1,amount=20ms`` (docs/howto/inject.md).

    Raises:
        UsageError: A fault cannot be understood.
    """
    return {FAULTS: to_text([parse_fault(text) for text in faults])}

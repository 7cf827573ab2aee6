"""How many examples a property test draws that states a number of its own."""

from hypothesis import settings

_USUAL = 100


def examples(number: int) -> int:
    """The number under ``make test``, the same share of fewer where ``--fast`` runs alone."""
    return max(1, number * settings.default.max_examples // _USUAL)

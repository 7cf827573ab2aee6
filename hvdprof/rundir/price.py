"""The price of a GPU, or of a rank that computes on none, per hour: where it is stated.

Tested in ``tests/analyze/verdict/test_loss_cost.py``.
"""

import math
from collections.abc import Mapping

from hvdprof.errors import UsageError

PRICE = "HVDPROF_PRICE"
"""Environment variable: the price where no option gives one."""

PRICE_OPTION = "price"
"""Its option among those in the manifest."""


def price_in(environment: Mapping[str, str]) -> float | None:
    """The price that the environment states, checked; None where it states none."""
    text = environment.get(PRICE)
    return checked_price(PRICE, text) if text else None


def checked_price(name: str, stated: object) -> float:
    """A price as a number, from where that name stated it.

    Raises:
        UsageError: It is no number, or negative.
    """
    try:
        price = float(str(stated))
    except ValueError:
        price = math.nan
    if not 0 <= price < math.inf:
        raise UsageError(
            f"{name} {stated} is no price per GPU and hour.", hint="Give a number, such as 2.50."
        )
    return price

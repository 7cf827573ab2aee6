"""Choices of the view: a choice is stored in the address, and nowhere else."""

from collections.abc import Sequence
from typing import Any

import dash_mantine_components as dmc

from hvdprof.dashboards import ids


def view_select(
    key: str,
    label: str,
    options: Sequence[str] | Sequence[dict[str, str]],
    value: str | None,
    **looks: Any,
) -> dmc.Select:
    """A list to choose from, whose choice becomes ``key`` of the address.

    The page is redrawn when the address changes, so ``key`` has to be one of its ``KEYS``.

    Args:
        key: Key of the address, such as ``np``.
        label: Name for screen readers; a ``description`` in ``looks`` is shown above the list.
        options: Texts, or mappings with ``value`` and ``label``.
        value: The current choice, also where it is a default that the address does not name.
        looks: Further properties of the component.
    """
    return dmc.Select(
        # The shown value is part of the id: only a value that differs from it was chosen.
        id={"type": ids.CONTROL, "key": key, "shown": value or ""},
        data=list(options),
        value=value,
        allowDeselect=False,
        searchable=True,
        **{"aria-label": label, **looks},
    )

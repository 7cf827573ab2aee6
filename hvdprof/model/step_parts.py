"""The parts of a step's time, in the order of reports, with their names in texts.

Tested in ``tests/model/tables/test_run_tables.py``.
"""

PART_NAMES: dict[str, str] = {
    "data": "data loading",
    "forward": "the forward pass",
    "backward": "the backward pass",
    "blocked": "blocked",
    "optimizer": "the parameter update",
    "other": "time outside all phases",
    "residual": "time between steps and waits between ranks",
}
"""Names of the parts of ``model.tables.scaling_tables.LOSSES``, as used in a sentence."""

RECORDED_PARTS: tuple[str, ...] = ("data", "forward", "backward", "blocked", "optimizer", "other")
"""The parts that the recorder measures on every rank; ``STEPS`` holds each as ``<part>_ns``."""

RESIDUAL = "residual"
"""Step time of the job minus the mean step time of its ranks."""

PARTS: tuple[str, ...] = (*RECORDED_PARTS, RESIDUAL)

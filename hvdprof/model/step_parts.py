"""The parts of a step's time, in the order of reports, with their names."""

PART_NAMES: dict[str, str] = {
    "data": "data",
    "forward": "forward",
    "backward": "backward",
    "blocked": "blocked",
    "before_update": "before the update",
    "optimizer": "optimizer",
    "outside": "outside all phases",
    "residual": "between steps and waits between ranks",
}
"""Names of the parts of ``model.tables.scaling_tables.LOSSES``, as figures show them."""

RECORDED_PARTS: tuple[str, ...] = (
    "data",
    "forward",
    "backward",
    "blocked",
    "before_update",
    "optimizer",
    "outside",
)
"""The parts that the recorder measures on every rank; ``STEPS`` holds each as ``<part>_ns``."""

RESIDUAL = "residual"
"""Step time of the job minus the mean step time of its ranks."""

PARTS: tuple[str, ...] = (*RECORDED_PARTS, RESIDUAL)

"""The parts of a step's time, in the order in which they are told, and what a reader calls them."""

PART_NAMES: dict[str, str] = {
    "data": "loading of data",
    "forward": "a slower forward pass",
    "backward": "a slower backward pass",
    "blocked": "exposed communication",
    "optimizer": "the parameter update",
    "other": "time outside every phase",
    "residual": "time between steps and ranks waiting for each other",
}
"""Names of the parts of ``model.tables.LOSSES``, as they stand in a sentence."""

RECORDED_PARTS: tuple[str, ...] = ("data", "forward", "backward", "blocked", "optimizer", "other")
"""The parts that the recorder measures in every rank; ``STEPS`` holds each as ``<part>_ns``."""

RESIDUAL = "residual"
"""Time of a step of the job that is not in the mean step of its ranks."""

PARTS: tuple[str, ...] = (*RECORDED_PARTS, RESIDUAL)

"""Tables of samples of the machine: of ranks, hosts and GPUs, and what they say of each rank.

Tested in ``tests/model/tables/test_run_tables.py``.
"""

from hvdprof.model.schema import Column, Table

_PASS = Column("pass_id", "category", "", "Folder name of the pass, as in the manifest.")
_RANK = Column("rank", "int32", "", "Rank as `hvd.rank()` returns it.")
_MEASURE = Column("measure", "category", "", "What was sampled, as docs/howto/machine.md lists it.")
_WINDOW = (
    Column("start_ns", "int64", "ns", "Begin of the window on rank 0's monotonic clock."),
    Column("duration_ns", "int64", "ns", "Length of the window."),
    _MEASURE,
    Column("samples", "int64", "samples", "Samples in the window."),
    Column("mean", "float64", "of measure", "Their mean; of a count its growth per second."),
    Column("low", "float64", "of measure", "The least of them."),
    Column("median", "float64", "of measure", "Their median."),
    Column("high", "float64", "of measure", "The most of them."),
)

RANK_SAMPLES = Table(
    "rank_samples",
    "One measure of the process of a rank in one window: processor time, waits for a core, memory.",
    (_PASS, _RANK, *_WINDOW),
)
HOST_SAMPLES = Table(
    "host_samples",
    "One measure of a host in one window, sampled by the first rank there.",
    (_PASS, _RANK, *_WINDOW),
)
DEVICE_SAMPLES = Table(
    "device_samples",
    "One measure of the GPU of a rank in one window, as NVML gives it.",
    (_PASS, _RANK, Column("device", "category", "", "Name of the GPU."), *_WINDOW),
)
SAMPLE_TABLES = (RANK_SAMPLES, HOST_SAMPLES, DEVICE_SAMPLES)

RANK_MACHINE = Table(
    "rank_machine",
    "One measure of a rank or its GPU during the steady steps of a launch, against the other ranks "
    "in the same windows.",
    (
        _PASS,
        Column("segment", "category", "", "Id of the segment within the pass, as in the plan."),
        _RANK,
        _MEASURE,
        Column("windows", "int32", "windows", "Windows of the rank during its steady steps."),
        Column("mean", "float64", "of measure", "Mean over these windows."),
        Column(
            "low",
            "float64",
            "of measure",
            "Lowest sample; of `flop_rate`, `mfu` 95 % interval.",
        ),
        Column("high", "float64", "of measure", "Highest sample in them; likewise."),
        Column(
            "others", "float64", "of measure", "Mean of the other ranks in them; NaN of one rank."
        ),
        Column(
            "growth",
            "float64",
            "of measure/step",
            "Growth per step, from the means of six equal parts of the windows; NaN of fewer.",
        ),
        Column("growth_low", "float64", "of measure/step", "Lower end of its 95 % interval."),
        Column("growth_high", "float64", "of measure/step", "Upper end of its 95 % interval."),
        Column(
            "last_growth", "float64", "of measure/step", "Growth between the last two of the parts."
        ),
        Column("num_above", "int32", "windows", "Windows in which it is above all other ranks."),
        Column("num_below", "int32", "windows", "Windows in which it is below all other ranks."),
        Column(
            "chance",
            "float64",
            "",
            "How often equal ranks give any of them as many such windows, above or below; sign "
            "test, times the number of ranks, at most 1. NaN of one rank.",
        ),
    ),
)

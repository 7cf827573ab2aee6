"""The tables of exports of Nsight Systems: what each GPU did, and its NCCL kernels.

Tested in ``tests/model/tables/test_run_tables.py``.
"""

from hvdprof.model.schema import Column, Table

_FILE = Column("file", "category", "", "The file, as it was named to hvdprof.")
_PROCESS = Column("pid", "int64", "", "Process; 0 where the export does not say.")
_DEVICE = Column("device", "int64", "", "Number of the GPU, as the process sees it.")

NSYS_GPUS = Table(
    "nsys_gpus",
    "One GPU of one process in an export of Nsight Systems: how long it computed and communicated.",
    (
        _FILE,
        _PROCESS,
        _DEVICE,
        Column("num_kernels", "int64", "", "Kernels, those of NCCL included."),
        Column("num_nccl_kernels", "int64", "", "Kernels of NCCL or RCCL."),
        Column(
            "num_nccl_calls",
            "int64",
            "",
            "NVTX ranges of NCCL's own domain, of the whole process.",
        ),
        Column("span_ns", "int64", "ns", "From the first start of a kernel to the last end."),
        Column("computing_ns", "int64", "ns", "Time with a kernel that is not NCCL's."),
        Column(
            "communicating_ns",
            "int64",
            "ns",
            "Time with a kernel of NCCL, waiting for other ranks included.",
        ),
        Column("exposed_ns", "int64", "ns", "Part of it without computation beside it."),
        Column("idle_ns", "int64", "ns", "Time without any kernel."),
    ),
)

NSYS_NCCL_KERNELS = Table(
    "nsys_nccl_kernels",
    "All NCCL kernels of one name on one GPU of an export of Nsight Systems.",
    (
        _FILE,
        _PROCESS,
        _DEVICE,
        Column("name", "category", "", "Name of the kernel, verbatim."),
        Column("collective", "category", "", "ALLREDUCE, SENDRECV ...; empty where unnamed."),
        Column("number", "int64", "", "How many ran."),
        Column("total_ns", "int64", "ns", "Sum of their lengths."),
        Column("median_ns", "float64", "ns", "Median length."),
        Column("exposed_ns", "int64", "ns", "Part of the sum without computation beside it."),
    ),
)

NSYS_TABLES = (NSYS_GPUS, NSYS_NCCL_KERNELS)

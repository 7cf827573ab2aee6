"""Timeline profiler and scaling-efficiency analyzer for Horovod."""

__version__ = "0.1.0"

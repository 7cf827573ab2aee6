"""Timeline profiler and scaling-efficiency analyzer for Horovod."""

__version__ = "0.2.0"

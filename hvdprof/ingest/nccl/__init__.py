"""NCCL debug logs of 2.2 to 2.27 and RCCL to tables; ``reader`` is the entry point."""

"""Exports of Nsight Systems (SQLite): kernels, NCCL's own ranges, and what hides what."""

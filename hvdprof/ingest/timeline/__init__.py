"""Horovod's timeline file: bytes to columns (syntax), and columns to uses, batches and steps."""

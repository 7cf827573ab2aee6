"""Horovod's timeline without a run directory: facts, sums, and who was last."""

"""Reference models and the one Horovod training loop that benchmarks them."""

"""The output of nccl-tests and of its relatives."""

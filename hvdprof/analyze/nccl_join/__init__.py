"""NCCL's calls matched with the executions of Horovod's timeline."""

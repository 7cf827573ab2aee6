"""What reduces the gradients (Horovod, DDP), and the hooks that see it."""

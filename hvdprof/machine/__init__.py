"""What this machine has, and building Horovod for it."""

"""Building and installing Horovod for the torch that is here."""

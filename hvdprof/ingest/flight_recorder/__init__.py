"""Dumps of PyTorch's Flight Recorder, one file per rank: JSON, or a pickle without classes."""

"""Parsed files to the declared tables of a run."""

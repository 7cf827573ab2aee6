"""Rates that training jobs and benchmarks print: one declared entry for each kind of line."""

"""Faults injected on purpose: the plan, the injection, clocks that are wrong."""

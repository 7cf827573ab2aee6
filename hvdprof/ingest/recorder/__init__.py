"""Recorder files of the ranks: lines, clock alignment, phases, tables."""

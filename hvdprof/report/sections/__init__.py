"""Sections of a report on a run: one shape per table, drawn alike by every format."""

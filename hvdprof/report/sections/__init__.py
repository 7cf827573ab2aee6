"""Sections of a report on a run, and of forecasts: one shape per table, drawn alike by all."""

"""Prediction of steps at a number of ranks that was not measured."""

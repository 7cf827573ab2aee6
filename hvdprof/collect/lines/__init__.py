"""Samples of the lines of code that a rank and its workers run, and named calls beside them."""

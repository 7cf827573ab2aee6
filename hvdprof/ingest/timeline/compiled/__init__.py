"""The same columns by compiled code."""

"""Table to table, pure: one question is one module."""

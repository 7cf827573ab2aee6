"""The dashboard pages, one question each."""

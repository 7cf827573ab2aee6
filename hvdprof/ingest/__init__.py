"""Files to tables: one file per format; load.py is the only door."""

"""A timeline file to columns in plain Python: records, damage, pairs of begin and end."""

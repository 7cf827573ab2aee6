"""The same columns by compiled code; importing this needs numba."""

"""Numbers from samples: steady state, uncertainty, significance, unions of intervals."""

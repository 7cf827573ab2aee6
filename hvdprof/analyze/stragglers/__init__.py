"""Which rank the others wait for: clock bounds, arrivals, caused wait, stragglers."""

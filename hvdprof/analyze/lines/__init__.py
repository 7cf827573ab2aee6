"""Which line of code takes the time, and which lines explain the causes of a cell."""

"""What comparisons, forecasts, tunings and self-tests return."""

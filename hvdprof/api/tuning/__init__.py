"""Try settings against the present one with real launches, and keep what was found."""

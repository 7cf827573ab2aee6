"""The result of a tuning: what to set, what was tried, and how well gains were predicted."""

"""Which settings to try, the race between them, and how well their gains were predicted."""

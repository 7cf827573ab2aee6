"""Recording unmodified scripts: import hook, steps without marks, elastic sessions, functions."""

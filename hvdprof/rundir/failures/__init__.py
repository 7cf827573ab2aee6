"""Why launches fail: known causes, and what stacks and prefixes of logs mean."""

"""A comparison of two runs as terminal text, Markdown, JSON, JUnit, GitHub annotations and CSV."""

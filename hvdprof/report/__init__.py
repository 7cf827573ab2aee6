"""A finished analysis to text, JSON or a trace: one file per format."""

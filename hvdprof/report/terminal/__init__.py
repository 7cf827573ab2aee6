"""The analysis as people read it in a terminal: one module per section."""

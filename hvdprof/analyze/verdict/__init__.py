"""The first lines that a reader sees: the verdict, its caveats, and the quality of the data."""

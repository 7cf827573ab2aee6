"""Who lost how much in which phase, whether that is chance, and a word for its shape."""

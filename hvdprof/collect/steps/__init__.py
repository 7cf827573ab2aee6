"""The steps of a rank: time sources, marks, and the lines they become in the recorder file."""

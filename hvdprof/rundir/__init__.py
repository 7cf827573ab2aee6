"""The files of a run on disk: layout, manifest, plan of a pass, lines of recorder files."""

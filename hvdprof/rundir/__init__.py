"""What lies on disk: the folders and files of a run, the manifest, the plan of a pass."""

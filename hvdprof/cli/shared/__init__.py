"""What several commands have in common: options, ``--sbatch``, loading, the end of a sweep."""

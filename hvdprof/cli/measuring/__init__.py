"""What commands that measure share: their options, ``--sbatch``, and the printed result."""

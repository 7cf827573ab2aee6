"""Why a pass failed or hangs: progress of ranks, stalls, stacks, first cause."""

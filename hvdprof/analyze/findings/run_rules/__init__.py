"""Rules on a run; ``STEPS`` in ``analyze.pipeline`` lists them."""

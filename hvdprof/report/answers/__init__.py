"""What commands answer beside the report on a run, such as a comparison of two runs."""

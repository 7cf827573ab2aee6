"""What commands answer beside the report on a run: each as sections, JSON and, some, CSV."""

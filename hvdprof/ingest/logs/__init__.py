"""What jobs and benchmarks print: one module per format."""

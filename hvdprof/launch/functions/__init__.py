"""Functions instead of scripts: from Python itself, below Spark, on Ray."""

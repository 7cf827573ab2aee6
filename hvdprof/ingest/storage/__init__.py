"""Tables in memory and on disk: columns, blocks, the Parquet cache."""

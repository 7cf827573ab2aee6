"""The declared tables, by subject; ``table_catalogue`` lists them all."""

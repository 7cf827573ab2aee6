"""What several pages show in the same way."""

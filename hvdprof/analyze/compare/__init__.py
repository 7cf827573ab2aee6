"""Two runs side by side: what became slower, by how much, and which cause moved."""

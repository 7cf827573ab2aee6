"""What a collective of any size costs on any topology, as draws."""

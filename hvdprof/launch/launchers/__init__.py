"""One module per launcher: a job in, an argument list out; ``choose_launcher`` picks."""

"""The pages, one module each: PATH, TITLE, layout() and register(app, runs)."""

"""The Dash app."""

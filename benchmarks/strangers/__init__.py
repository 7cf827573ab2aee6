"""Four users who do not know hvdprof, as sessions of commands and what has to come back."""

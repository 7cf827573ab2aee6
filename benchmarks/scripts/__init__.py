"""Training scripts as users write them; their compute is a sleep, and ``--fault`` slows them.

Each file is one script for ``hvdprof run -- python FILE``. ``script_faults.py`` runs them all.
``SCRIPT_WORK_SCALE`` multiplies every sleep.
"""

"""How reading reports its progress."""

from collections.abc import Callable

ProgressCallback = Callable[[str, int, int], None]
"""Called with the file being read, the bytes read so far, and the bytes of all files.

NCCL logs are read once more after all other files: both numbers then count their bytes alone.
"""

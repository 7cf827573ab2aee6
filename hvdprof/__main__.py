"""``python -m hvdprof``."""

from hvdprof.cli.main import main

if __name__ == "__main__":
    main()

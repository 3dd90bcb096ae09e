"""`python -m scalerl` is the same as the `scalerl` command."""

import sys

from scalerl.cli import main

if __name__ == "__main__":
    sys.exit(main())

"""`python -m taskfree` is the command `taskfree`."""

import sys

from taskfree.cli import main

if __name__ == "__main__":
    sys.exit(main())

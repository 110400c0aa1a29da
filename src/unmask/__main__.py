"""`python -m unmask` does what `unmask` does."""

import sys

from unmask.cli import main

sys.exit(main())

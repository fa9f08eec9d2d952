"""`python -m dfml` is the command `dfml`."""

import sys

from dfml.cli import main

sys.exit(main())

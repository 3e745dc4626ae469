"""`python -m viewer`."""

import sys

from viewer.app import main

sys.exit(main())

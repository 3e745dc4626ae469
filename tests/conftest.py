"""What all tests have in common."""

from __future__ import annotations

import os

os.environ.pop("ARMSWING_DOMAIN", None)  # of the shell: tests make folders of their own, and use domain 0 there

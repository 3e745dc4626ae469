"""Settings of the documentation: `make docs` builds it into build/docs, and a warning is an error."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # this folder's scripts, then the project
os.environ.setdefault("MPLBACKEND", "agg")

project = "armswing"
author = "the armswing authors"
project_copyright = author
release = metadata.version("armswing")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "generated",  # generated.py beside this file: reference pages and pictures
]
exclude_patterns = ["_generated/*.md", "examples/*"]

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
autodoc_preserve_defaults = True
add_module_names = False
copybutton_prompt_text = r"desk\$ |robot\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",  # every example runs at the build
    "run_stale_examples": True,  # the code that they run may have changed
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 1,
    "write_computation_times": False,
}

html_theme = "furo"
html_title = "armswing"
html_static_path: list[str] = []
html_theme_options = {"navigation_with_keys": True}

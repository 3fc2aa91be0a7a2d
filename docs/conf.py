"""The documentation site: ``make docs`` builds it into ``build/site``.

The source folder is the repository itself, so that a link between two of its files is the same on
a repository host and on the site.
"""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

import lcpool

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
# Of tqdm, in notebooks without widgets: it has a path of this machine.
os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"
# MathJax as a package: one file with its fonts inside, which becomes a part of the site.
PACKAGE = "sphinx-mathjax-offline"
MATHJAX = Path(distribution(PACKAGE).locate_file(f"{PACKAGE}/static/mathjax/tex-svg.js"))

project = "lcpool"
author = "the authors of lcpool"
copyright = "the authors of lcpool, MIT licence"
version = release = lcpool.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "cells",
    "links",
    "offline",
]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "paper/**", "experiments/**"]
exclude_patterns = [".*", "build", "dist", "docs/_*"]

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "force"  # neither a cache nor Sphinx knows when lcpool has changed
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True

html_theme = "furo"
html_title = f"lcpool {release}"
html_static_path = ["_static", str(MATHJAX)]
mathjax_path = MATHJAX.name
html_css_files = ["site.css"]
html_extra_path = ["_root"]
html_copy_source = False
html_show_sphinx = False
html_last_updated_fmt = ""
pygments_style = "friendly"
pygments_dark_style = "monokai"

autosummary_generate = False
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {"exclude-members": "__new__"}
napoleon_custom_sections = [("By position or by name", "params_style")]
napoleon_attr_annotations = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

nitpicky = True
nitpick_ignore_regex = [
    # Types in signatures: of other packages, or of rooms that are no public names.
    ("py:class", r"(?!lcpool\.[A-Z]).+"),
    ("py:mod", r"lcpool\..+"),
]


def named(app: Sphinx, what: str, name: str, obj: Any, options: Any, *said: Any) -> Any:
    """In signatures, a class that is a default is its name, not its ``repr``."""
    return tuple(text and re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", text) for text in said)


def setup(app: Sphinx) -> None:
    """Adapt signatures; let ``csv`` blocks be plain text: Pygments has no lexer for them."""
    app.connect("autodoc-process-signature", named)
    app.add_lexer("csv", TextLexer)

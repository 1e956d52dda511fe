"""The documentation site: `./dev docs` builds it into build/docs, offline, with warnings as errors."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_site"))

from keyspread import __version__  # noqa: E402

project = "keyspread"
author = "keyspread developers"
copyright = "keyspread developers, Apache-2.0"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "docstrings", "generated_pages"]
exclude_patterns = ["_site"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "separated"
python_maximum_signature_line_length = 88
default_role = "code"
highlight_language = "none"
smartquotes = False  # `--scheme` is not an en dash

html_theme = "furo"
html_title = "keyspread"
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1a7f4b", "color-brand-content": "#1a7f4b"},
    "dark_css_variables": {"color-brand-primary": "#4cc38a", "color-brand-content": "#4cc38a"},
}

"""The page as text: the template `page.html` with the data of a run in it. It is the same page live and as a file."""

import json
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from keyspread.errors import ExtraMissingError

if TYPE_CHECKING:
    from jinja2 import Template


def render(snapshot: dict[str, Any], live: bool = False) -> str:
    """Return the page with this snapshot; a live page also asks its server for news.

    >>> page = render({"title": "</script><script>"})
    >>> page.count("<script"), page.count("</script>")
    (2, 2)
    """
    from markupsafe import Markup

    return _template().render(data=Markup(in_script(snapshot)), live=live)


@lru_cache(maxsize=1)
def _template() -> "Template":
    try:
        from jinja2 import Environment
    except ModuleNotFoundError as error:
        raise ExtraMissingError("a page needs jinja2, which is not installed: pip install 'keyspread[page]'") from error
    source = files("keyspread.live_page").joinpath("page.html").read_text(encoding="utf-8")
    return Environment(autoescape=True, keep_trailing_newline=True).from_string(source)


def in_script(value: Any) -> str:
    r"""Return JSON that is safe inside a script element: nothing in it can end the element.

    >>> in_script({"key": "</script>"})
    '{"key":"\\u003c/script>"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")

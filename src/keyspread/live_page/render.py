"""The page as text: `page.html` with the data of a run in it. It is the same page live and as a file."""

import json
from importlib.resources import files
from typing import Any

_DATA = "/*data*/null"
_LIVE = 'data-live="no"'


def render(snapshot: dict[str, Any], live: bool = False) -> str:
    """Return the page with this snapshot; a live page also asks its server for news.

    >>> page = render({"title": "</script><script>"})
    >>> page.count("<script"), page.count("</script>")
    (2, 2)
    """
    page = files("keyspread.live_page").joinpath("page.html").read_text(encoding="utf-8")
    page = page.replace(_DATA, in_script(snapshot), 1)
    return page.replace(_LIVE, 'data-live="yes"', 1) if live else page


def in_script(value: Any) -> str:
    r"""Return JSON that is safe inside a script element: nothing in it can end the element.

    >>> in_script({"key": "</script>"})
    '{"key":"\\u003c/script>"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")

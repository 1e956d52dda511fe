"""JSON for machines: one object per line, each with the version of its format."""

import json
from collections.abc import Mapping
from typing import Any

FORMAT = 1
"""Version of all JSON that the commands print. It grows when a name is removed or changes its meaning."""


def print_json(content: Mapping[str, Any], *, type: str | None = None) -> None:
    """Print one object on one line: `format` first, then `type` if given, then the content."""
    names = {"format": FORMAT} if type is None else {"format": FORMAT, "type": type}
    print(json.dumps({**names, **content, **names}, default=str, ensure_ascii=False), flush=True)

"""What tests of pages share."""

from __future__ import annotations

import re

_RESOURCE = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed|object|image|use)\b[^>]*\s(?:src|href|data)\s*=\s*["']?+(?!data:|\#)
        |<link\b(?![^>]*href=["']data:)|@import|url\(\s*["']?+(?!data:|\#)""",
    re.I | re.X,
)


def outside_resources(html: str) -> list[str]:
    """Everything in `html` that a browser would fetch from elsewhere; links a reader may follow do not count."""
    return [html[m.start() : m.start() + 120] for m in _RESOURCE.finditer(html)]

"""Drawings made small enough to be committed: the same pixels by fewer digits, shorter names and smaller pictures."""

from __future__ import annotations

import base64
import io
import itertools
import re
import string
from collections import defaultdict
from collections.abc import Iterator

from PIL import Image

LIMIT = 300_000  # bytes

_UNSEEN = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>|"
    r' xmlns:xlink="[^"]*"| transform="rotate\(-0 [^"]*"',
    re.S,
)
_NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")
_COORDINATES = re.compile(r'(?<=\s)(x|y)="([^"]*)"')
_PATH = re.compile(r'(?<=\s)d="([^"]*)"')
_STEPS = re.compile(r"([MLCQz])([^A-Za-z]*)")
_PICTURE = re.compile(r'data:image/png;base64,([^"]*)')
_CLIP = re.compile(r' clip-path="([^"]*)"( style=")?')
_STYLE = re.compile(r' style="([^"]*)"')
_ID = re.compile(r'(?<=\s)id="([^"]*)"')
_USED = re.compile(r'(?:href="#|url\(#)([\w.-]+)')
_GROUP = re.compile(r"(<g>|<g [^>]*[^/]>|</g>)")


def drawing(svg: str) -> str:
    """SVG with coordinates to a tenth of a point, and styles as classes.

    >>> drawing('<svg><g id="a"> <path d="M 1.23 2 L 3.14 2 L 3.14 7 z" style="fill: none; opacity: 0.1"/> </g></svg>')
    '<svg><style>.a{fill:none;opacity:0.1}</style><path d="M1.2 2l1.9 0 0 5z" class="a"/></svg>\\n'
    """
    svg = _UNSEEN.sub("", svg).replace("xlink:href", "href")
    svg = _PATH.sub(lambda m: f'd="{_relative(m[1])}"', svg)
    svg = _COORDINATES.sub(lambda m: f'{m[1]}="{_NUMBER.sub(lambda n: _short(_whole(n[0], 10), 10), m[2])}"', svg)
    svg = _PICTURE.sub(lambda m: f"data:image/png;base64,{_picture(m[1])}", svg)
    ids = dict(zip(dict.fromkeys(_USED.findall(svg)), _names(), strict=False))
    svg = _ID.sub(lambda m: f'id="{ids[m[1]]}"' if m[1] in ids else "", svg)
    svg = _USED.sub(lambda m: m[0].replace(m[1], ids[m[1]]), svg)
    svg = _CLIP.sub(lambda m: f' style="clip-path:{m[1]};' + ("" if m[2] else '"'), svg)
    classes: dict[str, str] = defaultdict(_names().__next__)
    svg = _STYLE.sub(lambda m: f' class="{classes[m[1].replace("; ", ";").replace(": ", ":")]}"', svg)
    sheet = "".join(f".{name}{{{style}}}" for style, name in classes.items())
    svg = re.sub(r"(<svg[^>]*>)", rf"\1<style>{sheet}</style>", svg, count=1)
    svg = re.sub(r"\s+(?=/?>)", "", re.sub(r">\s+<", "><", svg)).replace("<g/>", "")
    return _ungrouped(svg).strip() + "\n"


def _names() -> Iterator[str]:
    """a to z, then aa to zz, and so on."""
    for length in itertools.count(1):
        yield from map("".join, itertools.product(string.ascii_lowercase, repeat=length))


def _relative(path: str) -> str:
    """Steps from point to point of the grid on which they are rounded, so that errors do not add up.

    Lines lie on tenths; curves, which draw what is small, on hundredths.
    """
    unit = 100 if "C" in path or "Q" in path else 10
    out, before, at, start = "", "", (0, 0), (0, 0)
    steps = _STEPS.findall(path)
    for (letter, numbers), (after, _) in zip(steps, [*steps[1:], ("", "")], strict=True):
        flat = [_whole(n, unit) for n in _NUMBER.findall(numbers)]
        points = list(zip(flat[::2], flat[1::2], strict=True))
        if letter == "M":
            at = start = points[0]
            out += f"M{_pair(*at, unit)}"
        elif letter == "z":
            at, out = start, out + "z"
        elif letter == "L" and ((points == [at] and before == "L") or (points == [start] and after == "z")):
            continue  # a first step stays, also one of no length: its ends may be round
        else:
            moved = " ".join(_pair(x - at[0], y - at[1], unit) for x, y in points)
            out += f"{' ' if letter == before else letter.lower()}{moved}"
            at = points[-1]
        before = letter
    return re.sub(r" (?=-)", "", re.sub(r"(?<![\d.])0\.", ".", out))


def picture(content: bytes, colours: int = 128) -> bytes:
    """A PNG with a table of at most so many colours."""
    with Image.open(io.BytesIO(content)) as opened:
        pixels = opened.convert("RGB").quantize(colours)
    return _png(pixels)


def _picture(encoded: str) -> str:
    """The same pixels as grey or by a table of colours, where that is possible."""
    with Image.open(io.BytesIO(base64.b64decode(encoded))) as opened:
        pixels = opened.convert("RGBA")
    if pixels.getchannel("A").getextrema() == (255, 255):
        pixels = pixels.convert("RGB")
        grey = pixels.convert("L")
        if grey.convert("RGB").tobytes() == pixels.tobytes():
            pixels = grey
        elif pixels.getcolors(256) is not None:
            pixels = pixels.convert("P", palette=Image.Palette.ADAPTIVE, colors=256)
    return min(base64.b64encode(_png(pixels)).decode(), "".join(encoded.split()), key=len)


def _png(pixels: Image.Image) -> bytes:
    stream = io.BytesIO()
    pixels.save(stream, "png", optimize=True)
    return stream.getvalue()


def _ungrouped(svg: str) -> str:
    """Without groups that have no attributes."""
    out, opened = [], []
    for part in _GROUP.split(svg):
        if part.startswith("<g"):
            opened.append(part != "<g>")
        if part != "<g>" and (part != "</g>" or opened.pop()):
            out.append(part)
    return "".join(out)


def _pair(x: int, y: int, unit: int) -> str:
    return f"{_short(x, unit)} {_short(y, unit)}"


def _whole(number: str, unit: int) -> int:
    return round(float(number) * unit)


def _short(number: int, unit: int) -> str:
    return f"{number / unit:g}" if abs(number) < 10**6 else str(number / unit)

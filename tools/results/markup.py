"""HTML as a tree, enough to read a report's own page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

_EMPTY = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


@dataclass
class Node:
    """An element: its children are elements and text."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text inside, with single spaces."""
        return " ".join(self.raw.split())

    @property
    def raw(self) -> str:
        """All text inside, as it is."""
        return "".join(child if isinstance(child, str) else child.raw for child in self.children)

    @property
    def elements(self) -> list[Node]:
        """Those directly inside."""
        return [child for child in self.children if isinstance(child, Node)]

    def every(self, tag: str, kind: str = "") -> Iterator[Node]:
        """Elements at any depth, in order; of class `kind`, if one is named."""
        for child in self.elements:
            if child.tag == tag and (not kind or kind in child.attributes.get("class", "").split()):
                yield child
            yield from child.every(tag, kind)

    def first(self, tag: str, kind: str = "") -> Node:
        """The first of `every`, or an empty element."""
        return next(self.every(tag, kind), Node(tag))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Node("document")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {key: value or "" for key, value in attrs})
        self.open[-1].children.append(node)
        if tag not in _EMPTY:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Node(tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if any(node.tag == tag for node in self.open):
            while self.open.pop().tag != tag:
                pass

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(html: str) -> Node:
    """The whole document."""
    reader = _Reader()
    document = reader.open[0]
    reader.feed(html)
    reader.close()
    return document

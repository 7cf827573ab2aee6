"""The timeline page in a browser: its window, its lanes, and what it draws."""

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.builders.browser import wait_until

IS_EXACT = """() => {
    const tool = document.getElementById('timeline');
    return Boolean(tool && tool.dataset.exact === 'true');
}"""
WINDOW = """() => {
    const {first, last} = document.getElementById('timeline').dataset;
    return [Number(first), Number(last)];
}"""
BOX = """() => {
    const {x, y, width, height} = document.querySelector('.timeline-lanes').getBoundingClientRect();
    return {x, y, width, height};
}"""
GUTTER = 168
"""Pixels of the names, in a window of 1,280."""


_PLACES = re.compile("&(from|step|segment|all)=")


def whole(query: str) -> str:
    """The query with the whole pass in view where it names no place: a pass opens elsewhere."""
    return query if _PLACES.search(query) else f"{query}&all=1"


def show_more(page):
    """Open what is rarely used of the controls."""
    page.evaluate("document.querySelector('.timeline-more').open = true")


def settled(page):
    """The window on the screen, once it is exact."""
    page.wait_for_selector(".timeline-lanes")
    page.wait_for_timeout(60)
    wait_until(page, IS_EXACT)
    return page.evaluate(WINDOW)


def query_of(page):
    return {key: values[0] for key, values in parse_qs(urlsplit(page.url).query).items()}


def at(page, share, y=10.0):
    """A point on the lanes: its share of the time axis, and pixels from their top."""
    box = page.evaluate(BOX)
    return box["x"] + GUTTER + share * (box["width"] - GUTTER - 6), box["y"] + y


def drag(page, start, end):
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=6)
    page.mouse.up()


@dataclass(frozen=True)
class Box:
    """A rectangle of a drawing, in pixels from its top left corner."""

    fill: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Drawing:
    """The saved SVG of the timeline: texts with the height of their middle, boxes, and paths."""

    texts: dict[str, float]
    boxes: list[Box]
    lines: list[list[tuple[float, float]]]
    arrows: list[list[tuple[float, float]]]

    def boxes_at(self, row: str) -> list[Box]:
        """The boxes in the row of that name which are not as high as all rows."""
        y = self.texts[row]
        return [box for box in self.boxes if box.y <= y <= box.y + box.height < y + 60]


def drawing_of(page) -> Drawing:
    """What the timeline draws, as saved by its button; arrows are lines of 1.2 pixels."""
    show_more(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save Timeline as SVG").click()
    page.evaluate("document.querySelector('.timeline-more').open = false")
    root = ET.parse(Path(download.value.path())).getroot()
    space = "{http://www.w3.org/2000/svg}"
    texts = {one.text or "": float(one.attrib["y"]) for one in root.iter(f"{space}text")}
    boxes = [
        Box(
            one.attrib["fill"],
            *(float(one.attrib[name]) for name in ("x", "y", "width", "height")),
        )
        for one in root.iter(f"{space}rect")
    ]
    paths = [one for one in root.iter(f"{space}path") if one.attrib["fill"] == "none"]
    return Drawing(
        texts,
        boxes,
        [_points(one) for one in paths if one.attrib["stroke-width"] != "1.2"],
        [_points(one) for one in paths if one.attrib["stroke-width"] == "1.2"],
    )


def x_of(page, ns: float) -> float:
    """Where a time of the pass stands in the drawing, in pixels from its left."""
    first, last = page.evaluate(WINDOW)
    width = page.evaluate(BOX)["width"]
    return GUTTER + (ns - first) / (last - first) * (width - GUTTER - 6)


def _points(path) -> list[tuple[float, float]]:
    numbers = [float(one) for one in re.findall(r"-?[0-9.]+", path.attrib["d"])]
    return list(zip(numbers[::2], numbers[1::2], strict=True))

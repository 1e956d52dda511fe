"""Names beside the points of a plot, placed so that they cover neither each other nor a point."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.transforms import Bbox

_REACHES = (7.0, 16.0, 27.0, 40.0)
"""Distances of a label from its point, in points of print; from the second on, a thin line leads to the point."""

_SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
_MARKER = 5.0  # half the width of a marker, in points of print


@dataclass(frozen=True)
class Label:
    """The text of one point."""

    x: float
    y: float
    text: str
    colour: str = "#333333"


def label_points(
    axes: Axes,
    labels: Sequence[Label],
    texts: Sequence[Any] = (),
    points: Sequence[tuple[float, float]] = (),
    *,
    size: float = 8.0,
    all_of_them: bool = True,
) -> int:
    """Write every label beside its point and return how many were written.

    A label takes the nearest place that is inside the axes and covers no point, none of `texts`, none of the other
    `points` and no earlier label. If no place is free, it takes the first one, or is left out unless `all_of_them`.
    """
    picture: Any = axes.get_figure()
    canvas: Any = FigureCanvasAgg(picture)
    picture.draw_without_rendering()  # the layout decides where the points are
    renderer: Any = canvas.get_renderer()
    pixels = picture.dpi / 72
    frame = axes.get_window_extent(renderer)
    drawn = [*((one.x, one.y) for one in labels), *points]
    taken = [_around(axes, x, y, _MARKER * pixels) for x, y in drawn]
    taken += [text.get_window_extent(renderer) for text in texts]
    written = 0
    for label in labels:
        places = [_text(axes, label, reach, side, size) for reach in _REACHES for side in _SIDES]
        boxes = [place.get_window_extent(renderer) for place in places]
        free = [index for index, box in enumerate(boxes) if _inside(box, frame) and not box.count_overlaps(taken)]
        chosen = free[0] if free else 0 if all_of_them else None
        for index, place in enumerate(places):
            if index != chosen:
                place.remove()
        if chosen is not None:
            taken.append(boxes[chosen].padded(pixels))
            written += 1
    return written


def _text(axes: Axes, label: Label, reach: float, side: tuple[int, int], size: float) -> Any:
    right, up = side
    line = {"arrowstyle": "-", "color": "#999999", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
    text = axes.annotate(
        "",
        (label.x, label.y),
        (reach * right, reach * up * (1 if right == 0 else 0.8)),
        textcoords="offset points",
        ha={1: "left", -1: "right", 0: "center"}[right],
        va={1: "bottom", -1: "top", 0: "center"}[up],
        fontsize=size,
        color=label.colour,
        arrowprops=line if reach > _REACHES[0] else None,
        annotation_clip=False,
    )
    text.set_parse_math(False)  # set the text after this: matplotlib would interpret a '$' in a name
    text.set_text(label.text)
    text.set_in_layout(False)
    return _TextOnly(text)


class _TextOnly:
    """An annotation whose extent is that of its text, without the line to its point."""

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation

    def get_window_extent(self, renderer: Any) -> Bbox:
        from matplotlib.text import Text

        self._annotation.update_positions(renderer)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # characters that the font lacks are drawn as boxes
            return Text.get_window_extent(self._annotation, renderer)

    def remove(self) -> None:
        self._annotation.remove()


def _around(axes: Axes, x: float, y: float, half: float) -> Bbox:
    across, up = axes.transData.transform((x, y))
    return Bbox.from_extents(across - half, up - half, across + half, up + half)


def _inside(box: Bbox, frame: Bbox) -> bool:
    return bool(box.x0 >= frame.x0 and box.x1 <= frame.x1 and box.y0 >= frame.y0 and box.y1 <= frame.y1)

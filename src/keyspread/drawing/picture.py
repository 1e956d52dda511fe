"""`Picture`: what a result looks like, apart from how it is drawn. `Drawn` gives a result its HTML and its text."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Columns:
    """One column per worker: its load, the part of hot keys if known, and a line at the even share.

    Columns with the same `scale` (the largest load of all of them) can be compared. Two halves stand side by side.
    """

    title: str
    loads: Sequence[float]
    hot: Sequence[float] | None = None
    scale: float | None = None
    half: bool = False
    unit: str = "workers"
    """What the columns are, and below it what the line and the part of another colour are called."""
    line: str = "even share"
    mark: str = "hot keys"

    @property
    def even(self) -> float:
        """The load of every worker if all had the same."""
        return sum(self.loads) / len(self.loads) if len(self.loads) else 0.0

    @property
    def most(self) -> float:
        """The load of the busiest worker."""
        return max(self.loads, default=0.0)

    @property
    def busiest(self) -> float:
        """The load of the busiest worker as a multiple of the even share; 1 is perfect."""
        return self.most / self.even if self.even else 1.0


@dataclass(frozen=True)
class Bar:
    """A named value with its text; the bar of the result itself is `strong`."""

    name: str
    value: float
    text: str
    strong: bool = False


@dataclass(frozen=True)
class Bars:
    """Named values as bars on one scale."""

    title: str
    bars: Sequence[Bar]


@dataclass(frozen=True)
class Trend:
    """Values over time, oldest first."""

    title: str
    values: Sequence[float]


@dataclass(frozen=True)
class Table:
    """Texts in columns; all but the first are aligned to the right. The first row may be the `strong` one."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    strong: bool = False


Part = Columns | Bars | Trend | Table


@dataclass(frozen=True)
class Picture:
    """A title, facts in one line, and parts from top to bottom."""

    title: str
    facts: str
    parts: Sequence[Part]


def rows_of(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Yield the parts in rows: two halves in a row, any other part alone."""
    half: list[Part] = []
    for part in parts:
        is_half = isinstance(part, Columns) and part.half
        if half and (not is_half or len(half) == 2):
            yield half
            half = []
        if is_half:
            half = [*half, part]
        else:
            yield [part]
    if half:
        yield half


class Drawn:
    """A result that draws itself in a notebook (`_repr_html_`) and in a terminal (`print`), from the same picture."""

    __slots__ = ()

    @abstractmethod
    def picture(self) -> Picture:
        """Return what this result looks like."""

    def _repr_html_(self) -> str:
        from keyspread.drawing.markup import as_html

        return as_html(self.picture())

    def __str__(self) -> str:
        """Return the picture as text of at most 80 columns."""
        from keyspread.drawing.text import as_text

        return as_text(self.picture())


def of_loads(
    title: str,
    loads: Sequence[float],
    hot: Sequence[float] | None = None,
    *,
    scale: float | None = None,
    half: bool = False,
) -> Columns:
    """Return the columns of workers, with what is most important in the title.

    >>> of_loads("rows", [3, 1]).title
    'rows per worker: the busiest has 1.50 × its even share'
    """
    columns = Columns(
        title, [float(load) for load in loads], None if hot is None else [float(one) for one in hot], scale, half
    )
    said = f"{title} per worker: the busiest has {columns.busiest:.2f} × its even share"
    return Columns(said if not half else title, columns.loads, columns.hot, scale, half)


def hottest_table(keys: Sequence[tuple[str | None, int]], total: int) -> Table:
    """Return a table of the hottest keys with their rows and shares."""
    rows = [
        ("null" if key is None else key, f"{many:,}", f"{100 * many / total:.2f} %" if total else "")
        for key, many in keys
    ]
    return Table(("hottest keys", "rows", "share"), rows)

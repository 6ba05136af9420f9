"""A chart: a plotly.js figure, its values as a table, its source files, and notes about missing data.

The colours are distinguishable on white and on black. page.css sets the colours of text and grid lines."""
import math

from units import bytes_text, is_number, time_unit

COMPUTE, HIDDEN, EXPOSED, BUBBLE, WAITING, SLOWER, IDLE = (
    "#3d7fc1", "#7d8a99", "#d62f3a", "#d9822b", "#a56bc4", "#8c6d3f", "#9aa5b1")
SERIES = ("#3d7fc1", "#d9822b", "#2f9e62", "#a56bc4", "#c2508f", "#1f9aa8", "#8c6d3f", "#6b7f2a", "#7d8a99")
BANDS = ("#3d7fc1", "#d9822b", "#2f9e62", "#a56bc4", "#1f9aa8", "#8c6d3f")
DASHES = ("solid", "dot", "dashdot", "longdash")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
RATIOS = ((0, "#8c1d18"), (0.5, "#c9d3dd"), (1, "#1b5fa8"))  # low, as expected, high
MAX_TICKS = 14


class Chart:
    def __init__(self, title, sources, about="", traces=(), columns=(), rows=(), notes=(), height=420, **layout):
        self.title, self.sources, self.about, self.traces = title, list(sources), about, list(traces)
        self.columns, self.rows, self.notes = list(columns), list(rows), list(notes)
        self.height, self.layout = height, layout
        self.chooser = None  # for sweeps: the columns that the reader can choose for the axes and the color

    @property
    def stamps(self):
        """The stamps of the source files; one that only some of the files have is prefixed with their names."""
        files = {}
        for result in self.sources:
            for stamp in result.stamps:
                files.setdefault(stamp, []).append(result.name)
        n, texts = len(self.sources), []
        for stamp, names in sorted(files.items(), key=lambda item: -len(item[1])):
            which = f"{', '.join(names)}: " if len(names) < 3 else f"{len(names)} of {n} files: "
            texts.append(stamp if len(names) == n else which + stamp)
        return texts

    def figure(self):
        """The arguments of Plotly.newPlot, or None for a chart that is only a table."""
        if not self.traces and not self.chooser:
            return None
        top = 46 + self.stamps_from() + 18 * len(self.stamps)
        layout = {
            "height": self.height + 18 * len(self.stamps[1:]), "margin": {"l": 76, "r": 24, "t": top, "b": 60},
            "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "hovermode": "closest",
            "font": {"family": "system-ui, sans-serif", "size": 13}, "modebar": {"bgcolor": "rgba(0,0,0,0)"},
            "showlegend": sum(trace.get("showlegend", True) for trace in self.traces) > 1,
            "legend": {"orientation": "h", "x": 0, "yref": "container", "y": 0, "yanchor": "bottom",
                       "traceorder": "normal"},
            **self.layout}
        layout["annotations"] = [*layout.get("annotations", []), *self.stamp_marks()]
        return {"data": self.traces, "layout": layout}

    def stamps_from(self):
        """Offset of the stamps in pixels: space for annotations above the plot (names of bands and lines)."""
        return 18 if self.layout.get("annotations") else 0

    def stamp_marks(self):
        """The stamps as plotly annotations, so that a saved image contains them."""
        problems = tuple(problem for result in self.sources for problem in result.problems)
        return [{"text": stamp, "name": "stamp", "xref": "paper", "yref": "paper", "x": 1, "y": 1, "xanchor": "right",
                 "yanchor": "bottom", "yshift": 4 + self.stamps_from() + 19 * i, "showarrow": False,
                 "font": {"size": 12, "color": EXPOSED if stamp.endswith(problems) else HIDDEN}}
                for i, stamp in enumerate(reversed(self.stamps))]


def axis(title, **more):
    return {"title": {"text": title}, "automargin": True, "zeroline": False, **more}


def name_axis(**more):
    """An axis of names, which plotly would otherwise take for numbers or dates if they look like these."""
    return axis("", type="category", **more)


def log_axis(title, values):
    """A logarithmic axis with ticks at 1, 2, 5, 10, ...; only at powers of ten if it spans more than two decades."""
    known = [v for v in values if is_number(v) and v > 0]
    if not known:
        return axis(title, type="log")
    low, high = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    steps = (1, 2, 5) if high - low <= 2 else (1,)
    ticks = [step * 10 ** exponent for exponent in range(low - 1, high + 1) for step in steps]
    return axis(title, type="log", tickmode="array", tickvals=ticks, ticktext=[f"{tick:,.10g}" for tick in ticks])


def size_axis(sizes, title="bytes"):
    """A logarithmic axis with at most MAX_TICKS of the sizes as ticks."""
    known = sorted({size for size in sizes if is_number(size) and size > 0})
    step = -(-len(known) // MAX_TICKS) or 1
    shown = known[::step]
    return axis(title, type="log", tickmode="array", tickvals=shown, ticktext=[bytes_text(size) for size in shown])


def time_axis(values_us):
    """(title of an axis of times, microseconds per unit)."""
    unit, per = time_unit(max((v for v in values_us if is_number(v)), default=0))
    return f"time ({unit})", per


def table(rows, columns):
    """The table of a chart. columns: {title: key of a row, or function of a row}."""
    return {"columns": list(columns), "rows": [[get(row) if callable(get) else row.get(get) for get in columns.values()]
                                               for row in rows]}


def stacked(title, sources, names, parts, unit, **more):
    """A chart of stacked horizontal bars. parts: [(name, values, hover texts, color)]; unit: (axis title, divisor)."""
    axis_title, per = unit
    traces = [bars(part, [(value or 0) / per for value in values], names, hover, color, orientation="h")
              for part, values, hover, color in parts]
    layout = {"barmode": "stack", "height": 190 + 30 * len(names), "xaxis": axis(axis_title),
              "yaxis": name_axis(autorange="reversed")}
    return Chart(title, sources, traces=traces, **{**layout, **more})


def line(name, x, y, hover, color, **more):
    return {"type": "scatter", "mode": "lines+markers", "name": name, "x": x, "y": y, "hovertext": hover,
            "hoverinfo": "text", "line": {"color": color, "width": 2}, "marker": {"color": color, "size": 7}, **more}


def line_style(i, predicted=False):
    """The line and the markers of the series i of a chart."""
    color, dash = SERIES[i % len(SERIES)], "dash" if predicted else DASHES[i // len(SERIES) % len(DASHES)]
    return {"line": {"color": color, "width": 2, "dash": dash},
            "marker": {"color": color, "size": 7, "symbol": SYMBOLS[i % len(SYMBOLS)]}}


def bars(name, x, y, hover, color, **more):
    return {"type": "bar", "name": name, "x": x, "y": y, "hovertext": hover, "hoverinfo": "text",
            "marker": {"color": color}, **more}


def error_bars(values, intervals, color):
    """intervals: [(low, high) or None], in the unit of the values."""
    pairs = [(v - i[0], i[1] - v) if i and is_number(v) else (0, 0) for v, i in zip(values, intervals)]
    return {"type": "data", "symmetric": False, "arrayminus": [max(0, low) for low, _ in pairs],
            "array": [max(0, high) for _, high in pairs], "color": color, "thickness": 1.2, "width": 4}

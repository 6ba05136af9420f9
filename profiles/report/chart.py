"""What a chart is: a figure of plotly.js, the same figures as a table, the files that they come from, and what is
missing. Colours are told apart on white and on black; text and lines take theirs from the page (page.css)."""
import math

from units import bytes_text, is_number, time_unit

COMPUTE, HIDDEN, EXPOSED, BUBBLE, WAITING, SLOWER, IDLE = (
    "#3d7fc1", "#7d8a99", "#d62f3a", "#d9822b", "#a56bc4", "#8c6d3f", "#9aa5b1")
SERIES = ("#3d7fc1", "#d9822b", "#2f9e62", "#a56bc4", "#c2508f", "#1f9aa8", "#8c6d3f", "#6b7f2a", "#7d8a99")
BANDS = ("#3d7fc1", "#d9822b", "#2f9e62", "#a56bc4", "#1f9aa8", "#8c6d3f")
DASHES = ("solid", "dot", "dashdot", "longdash")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
MAX_TICKS = 14


class Chart:
    def __init__(self, title, sources, about="", traces=(), columns=(), rows=(), notes=(), height=420, **layout):
        self.title, self.sources, self.about, self.traces = title, list(sources), about, list(traces)
        self.columns, self.rows, self.notes = list(columns), list(rows), list(notes)
        self.height, self.layout = height, layout
        self.chooser = None  # columns that a reader may put on the axes (sweep)

    @property
    def stamps(self):
        """Of all files that it shows; told by name where they differ."""
        said = [result.stamps for result in self.sources]
        if all(stamps == said[0] for stamps in said[1:]):
            return said[0] if said else []
        return [f"{result.name}: {stamp}" for result, stamps in zip(self.sources, said) for stamp in stamps]

    def figure(self):
        """For Plotly.newPlot, or None where there is a table alone."""
        if not self.traces and not self.chooser:
            return None
        layout = {
            "height": self.height, "margin": {"l": 76, "r": 24, "t": 46 + self.stamps_from() + 18 * len(self.stamps), "b": 60},
            "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "hovermode": "closest",
            "font": {"family": "system-ui, sans-serif", "size": 13}, "showlegend": len(self.traces) > 1,
            "modebar": {"bgcolor": "rgba(0,0,0,0)"},
            "legend": {"orientation": "h", "x": 0, "yref": "container", "y": 0, "yanchor": "bottom", "traceorder": "normal"},
            **self.layout}
        layout["annotations"] = [*layout.get("annotations", []), *self.stamp_marks()]
        return {"data": self.traces, "layout": layout}

    def stamps_from(self):
        """Above the words that stand over the figure: names of bands, of lines."""
        return 18 if self.layout.get("annotations") else 0

    def stamp_marks(self):
        """In the figure itself, so that a saved image has them too."""
        return [{"text": stamp, "name": "stamp", "xref": "paper", "yref": "paper", "x": 1, "y": 1, "xanchor": "right",
                 "yanchor": "bottom", "yshift": 4 + self.stamps_from() + 19 * i, "showarrow": False,
                 "font": {"size": 12, "color": EXPOSED}} for i, stamp in enumerate(reversed(self.stamps))]


def axis(title, **more):
    return {"title": {"text": title}, "automargin": True, "zeroline": False, **more}


def log_axis(title, values):
    """Ticks that say what they are: 1, 2, 5, 10 .., as many as can be read."""
    known = [v for v in values if is_number(v) and v > 0]
    if not known:
        return axis(title, type="log")
    low, high = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    steps = (1, 2, 5) if high - low <= 2 else (1,)
    ticks = [step * 10 ** exponent for exponent in range(low - 1, high + 1) for step in steps]
    return axis(title, type="log", tickmode="array", tickvals=ticks, ticktext=[f"{tick:,.10g}" for tick in ticks])


def size_axis(sizes, title="bytes"):
    """Powers of two on a logarithmic axis, as few as can be read."""
    known = sorted({size for size in sizes if is_number(size) and size > 0})
    step = -(-len(known) // MAX_TICKS) or 1
    shown = known[::step]
    return axis(title, type="log", tickmode="array", tickvals=shown, ticktext=[bytes_text(size) for size in shown])


def unit_of_times(values_us):
    return time_unit(max((v for v in values_us if is_number(v)), default=0))


def line(name, x, y, hover, color, **more):
    return {"type": "scatter", "mode": "lines+markers", "name": name, "x": x, "y": y, "hovertext": hover,
            "hoverinfo": "text", "line": {"color": color, "width": 2}, "marker": {"color": color, "size": 7}, **more}


def bars(name, x, y, hover, color, **more):
    return {"type": "bar", "name": name, "x": x, "y": y, "hovertext": hover, "hoverinfo": "text",
            "marker": {"color": color}, **more}


def error_bars(values, intervals, color):
    """intervals: (low, high) or None, in the unit of the values."""
    pairs = [(v - i[0], i[1] - v) if i and is_number(v) else (0, 0) for v, i in zip(values, intervals)]
    return {"type": "data", "symmetric": False, "arrayminus": [max(0, low) for low, _ in pairs],
            "array": [max(0, high) for _, high in pairs], "color": color, "thickness": 1.2, "width": 4}

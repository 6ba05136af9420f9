"""Charts of `busbar compare`, `busbar calibrate` and `busbar sweep`."""
from statistics import median, median_low

from chart import (COMPUTE, EXPOSED, HIDDEN, SERIES, SYMBOLS, WAITING, Chart, axis, bars, error_bars, line, line_style,
                   log_axis, name_axis, size_axis, table)
from units import bytes_text, interval_of, is_number, number_text, time_text

OVER = "above the threshold"
VERDICTS = ((OVER, EXPOSED, "triangle-down"), ("slower", EXPOSED, "triangle-down"), ("faster", COMPUTE, "triangle-up"),
            ("no difference", HIDDEN, "circle"), ("inconclusive", HIDDEN, "circle-open"), ("wrong data", WAITING, "x"))
COMPARISON_COLUMNS = {
    "operation": "collective", "bytes": "bytes", "type": "dtype", "reduction": "op", "placement": "placement",
    "mode": "mode", "A (us)": lambda row: (row.get("a") or {}).get("p50_us"),
    "B (us)": lambda row: (row.get("b") or {}).get("p50_us"), "B / A": "ratio", "verdict": "verdict",
    "judged by": "judged_by"}


def comparisons(results):
    """Ratio of each row as a function of its message size, colored by verdict."""
    for result in results:
        if any(row.get("file") for row in result.rows):  # several steps: steps.compared
            continue
        data, rows = result.data, [row for row in result.rows if is_number(row.get("ratio"))]
        sized = [row for row in rows if is_number(row.get("bytes"))]
        shapes = [level(1, HIDDEN)]
        if is_number(data.get("threshold_percent")):
            shapes.append(level(1 + data["threshold_percent"] / 100, EXPOSED))
        notes = [f"The inputs also differ in {p.get('what')}: {or_not_set(p.get('a'))} and {or_not_set(p.get('b'))}"
                 for p in data.get("provenance") or []]
        notes += [f"Only in {side.upper()}: {len(data[f'only_{side}'])} rows"
                  for side in "ab" if data.get(f"only_{side}")]
        points = [verdict_points(sized or rows, v, bool(sized), data.get("threshold_percent")) for v in VERDICTS]
        yield Chart(
            f"B against A ({result.name})", [result], notes=notes, shapes=shapes,
            about=f"A: {data.get('a')}, B: {data.get('b')}. Ratio of the median times; below 1, B is faster."
            f"{over_text(result)}",
            traces=[one for one in points if one["x"]],
            xaxis=size_axis(row["bytes"] for row in sized) if sized else name_axis(),
            yaxis=axis("time of B / time of A"), **table(result.rows, COMPARISON_COLUMNS))


def over_text(result):
    percent = result.data.get("threshold_percent")
    if not is_number(percent):
        return ""
    over = sum(is_over(row, percent) for row in result.rows)
    return f" {over} of {len(result.rows)} rows are above the threshold of {number_text(percent)} % (dashed)."


def or_not_set(value):
    return "not set" if value is None else value


def level(y, color):
    return {"type": "line", "xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": y, "y1": y,
            "line": {"color": color, "width": 1.5, "dash": "dash"}}


def is_over(row, percent):
    return is_number(row.get("ratio")) and is_number(percent) and row["ratio"] > 1 + percent / 100


def row_name(row):
    """For example "all_reduce 64 MiB in place", "step"."""
    parts = (row.get("collective"), bytes_text(row["bytes"]) if is_number(row.get("bytes")) else None,
             "in place" if row.get("placement") == "in_place" else None)
    return " ".join(part for part in parts if part) or "step"


def verdict_points(rows, verdict, sized, percent):
    """The rows with this verdict. The ten rows that are the farthest above the threshold have names, which point to the
    middle of the plot; several rows at the same point have the name of the first."""
    name, color, symbol = verdict
    mine = [row for row in rows if (OVER if is_over(row, percent) else row.get("verdict")) == name]
    worst = sorted(mine, key=lambda row: row["ratio"])[-10:] if name == OVER else []
    named = {(row.get("bytes"), round(row["ratio"], 3)): id(row) for row in reversed(worst)}
    middle = median_low(row["bytes"] for row in rows) if sized and rows else None
    return {"type": "scatter", "mode": "markers+text", "name": name, "y": [row["ratio"] for row in mine],
            "text": [row_name(row) if id(row) in named.values() else "" for row in mine], "cliponaxis": False,
            "textposition": ["top left" if middle and row["bytes"] > middle else "top right" for row in mine],
            "x": [row["bytes"] if sized else row.get("collective") or "step" for row in mine],
            "hovertext": [ratio_text(row) for row in mine], "hoverinfo": "text",
            "marker": {"color": color, "symbol": symbol, "size": 10}}


def ratio_text(row):
    a, b = row.get("a") or {}, row.get("b") or {}
    placement = str(row.get("placement") or "").replace("_", " ")
    return (f"{row.get('collective') or 'step'} {row.get('dtype') or ''} {placement}<br>"
            f"{bytes_text(row.get('bytes'))}<br>A {time_text(a.get('p50_us'))}, B {time_text(b.get('p50_us'))}<br>"
            f"B / A {number_text(row.get('ratio'))}: {row.get('verdict')}")


RESIDUAL_COLUMNS = {"fit": "fit", "row": "row", "file": "file", "measured (us)": "measured_us",
                    "fitted (us)": "fitted_us", "fitted / measured": lambda row: row["fitted_us"] / row["measured_us"],
                    "used in the fit": lambda row: "no" if row.get("outlier") else "yes"}


def residuals(results):
    """Fitted over measured time of each row, by fit: above 1 the profile predicts a longer time than was measured."""
    for result in results:
        names = list(dict.fromkeys(row.get("fit") for row in result.rows))
        yield Chart(
            f"Residuals of the fits ({result.name})", [result], shapes=[level(1, HIDDEN)],
            about=f"Fitted over measured time of each row. Open symbols: outliers, not used in the fit. "
            f"Profile {result.text('profile')}, based on {result.text('from')}.",
            traces=[trace for i, name in enumerate(names) for trace in fit_points(result.rows, name, i)],
            xaxis=log_axis("measured time (us)", [row["measured_us"] for row in result.rows]),
            yaxis=axis("fitted / measured"), **table(result.rows, RESIDUAL_COLUMNS))


def fit_points(rows, name, i):
    for outlier in (False, True):
        mine = [row for row in rows if row.get("fit") == name and bool(row.get("outlier")) == outlier]
        symbol = SYMBOLS[i % len(SYMBOLS)] + ("-open" if outlier else "")
        if mine:
            yield {"type": "scatter", "mode": "markers", "name": f"{name}, outlier" if outlier else name,
                   "x": [row["measured_us"] for row in mine],
                   "y": [row["fitted_us"] / row["measured_us"] for row in mine],
                   "hovertext": [f"{row.get('row')}<br>{row.get('file')}<br>measured {time_text(row['measured_us'])}, "
                                 f"fitted {time_text(row['fitted_us'])}" for row in mine],
                   "hoverinfo": "text", "marker": {"color": SERIES[i % len(SERIES)], "symbol": symbol, "size": 8}}


PARAMETER_COLUMNS = {"parameter": "key", "nominal": "nominal", "calibrated": "value", "fitted to": "from",
                     "identified": lambda p: "only in combination" if p.get("correlated") else "individually"}


def parameters(results):
    """The fitted parameters of the profile, with the fit that determined each."""
    for result in results:
        known = result.data.get("parameters") or []
        fitted, penalized = [p for p in known if p.get("from")], result.data.get("penalized_variants") or []
        notes = [f"Penalized, because NCCL did not choose these variants: {', '.join(map(str, penalized))}"]
        yield Chart(
            f"Fitted parameters ({result.name})", [result], notes=notes if penalized else [],
            about=f"{len(fitted)} of {len(known)} parameters were fitted; the others keep the values of "
            f"{result.text('from')}.", **table(fitted, PARAMETER_COLUMNS))


def study_charts(results):
    """The charts that the study file describes: y over x, one chart for each combination of values in `for_each`."""
    for result in results:
        for chart in (result.data.get("study") or {}).get("charts") or []:
            yield from study_chart(result, chart)


def study_chart(result, chart):
    columns = result.data.get("columns") or []
    y, lines_by, for_each = chart["y"], chart.get("lines", ()), chart.get("for_each", ())
    used = [y, *lines_by, *for_each]
    names = [chart.get("x") or first_varying(result, [c for c in columns if c not in used]), *used]
    names = [name if name in columns else name.removesuffix(".p50") for name in names]
    if not set(names) <= set(columns):  # a default column that no result has
        return
    at = [columns.index(name) for name in names]
    n_lines, charts, failed = len(lines_by), {}, 0
    for row in result.data.get("rows") or []:
        x, y, *labels = (row[i] for i in at)
        if is_number(y) and x is not None:
            lines = charts.setdefault(tuple(map(str, labels[n_lines:])), {})
            lines.setdefault(label_of(lines_by, labels[:n_lines]), {}).setdefault(x, []).append(y)
        else:
            failed += 1
    x_name, y_name = columns[at[0]], columns[at[1]]
    for values, lines in charts.items():
        title = ", ".join([f"{y_name} over {x_name}", *(f"{k} {v}" for k, v in zip(for_each, values))])
        numeric = all(is_number(x) for points in lines.values() for x in points)
        xs = sorted({x for points in lines.values() for x in points}) if numeric else []
        yield Chart(
            f"{title} ({result.text('name')})", [result], about=result.text("about"),
            traces=[study_line(name, points, i, numeric) for i, (name, points) in enumerate(lines.items())],
            notes=[f"{failed} row{' has' if failed == 1 else 's have'} no value for this chart"] if failed else [],
            xaxis=study_axis(x_name, xs) if numeric else name_axis(), yaxis=axis(y_name, rangemode="tozero"),
            columns=(", ".join(lines_by) or "line", x_name, y_name),
            rows=[[name, x, median(ys)] for name, points in lines.items() for x, ys in points.items()])


def first_varying(result, names):
    """The first of these columns with more than one value, else the first; None if there is none."""
    columns, rows = result.data.get("columns") or [], result.data.get("rows") or []
    varying = [name for name in names if len({str(row[columns.index(name)]) for row in rows}) > 1]
    return next(iter([*varying, *names]), None)


def label_of(names, values):
    """One name alone is clear from its values, unless they are numbers."""
    texts = ["not set" if value is None else str(value) for value in values]
    return ", ".join(f"{name} {text}" if is_number(value) or value is None else text
                     for name, value, text in zip(names, values, texts))


def study_axis(name, xs):
    if name == "bytes" or name.endswith("_bytes"):
        return size_axis(xs, name)
    if min(xs) <= 0:
        return axis(name)
    return axis(name, type="log", tickmode="array", tickvals=xs, ticktext=[f"{x:g}" for x in xs])


def study_line(name, points, i, numeric):
    """Median over the repeats of a run; error bars from the smallest to the largest value."""
    xs = sorted(points) if numeric else list(points)
    ys, color = [median(points[x]) for x in xs], SERIES[i % len(SERIES)]
    hover = [f"{name}<br>{x}<br>{number_text(y)}" for x, y in zip(xs, ys)]
    more = {}
    if any(len(points[x]) > 1 for x in xs):
        more["error_y"] = error_bars(ys, [(min(points[x]), max(points[x])) for x in xs], color)
    if not numeric:
        return bars(name, [str(x) for x in xs], ys, hover, color, **more)
    return line(name, xs, ys, hover, color, **more, **line_style(i))


def sweeps(results):
    """A table that the reader can sort and filter, and a scatter plot of two chosen columns."""
    for result in results:
        columns, rows = result.data.get("columns") or [], result.data.get("rows") or []
        counts = result.data.get("counts") or {}
        rows = [[cell(value) for value in row] for row in rows if isinstance(row, list)]
        chart = Chart(
            f"Study {result.text('name')} ({result.name})", [result], columns=columns, rows=rows,
            about=f"{result.text('about')}. {counts.get('complete', '-')} complete, {counts.get('failed', '-')} "
            f"failed, {counts.get('to_do', '-')} to do.".removeprefix(". "))
        numbers = [name for i, name in enumerate(columns) if any(is_number(row[i]) for row in rows if i < len(row))]
        axes = [name for name in result.data.get("axes") or {} if name in columns]
        if numbers:
            x = first_varying(result, [a for a in axes if a in numbers] or numbers)
            color = first_varying(result, [a for a in axes if a != x])
            chart.chooser = {"x": x, "y": first_varying(result, [n for n in numbers if n not in axes]) or numbers[-1],
                             "color": color or "", "numbers": numbers}
        yield chart


def cell(value):
    if isinstance(value, dict):
        value = [f"{key} {one}" for key, one in value.items()]
    return ", ".join(map(str, value)) if isinstance(value, list) else value

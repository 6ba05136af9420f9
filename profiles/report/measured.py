"""Charts of what `busbar bench` measured."""
import math
from statistics import median

from chart import (BANDS, COMPUTE, EXPOSED, HIDDEN, RATIOS, SERIES, Chart, axis, bars, error_bars, line, line_style,
                   log_axis, name_axis, size_axis, stacked, table, time_axis)
from result_files import is_plan
from units import bytes_text, interval_of, is_number, median_of, number_text, time_text

# ---- collectives: over size ------------------------------------------------------------------------------------------


def chart_key(row):
    """(title, mode): the key of the chart that contains the row."""
    parts = [row.get("collective") or "?", row.get("dtype"), row.get("op")]
    return " ".join(str(part) for part in parts if part), row.get("mode") or "stream"


def line_key(result, row):
    """(file, placement, further parameters): the key of the line within the chart."""
    more = [f"{key} {row[key]}" for key in ("root", "group", "cycle") if is_number(row.get(key))]
    return (result.name, str(row.get("placement") or "").replace("_", " "), " ".join(more))


def curves(results, wanted):
    """{chart_key: {line_key: (result, rows sorted by size)}} of the rows for which wanted(row) is true."""
    charts = {}
    for result in results:
        for row in result.rows:
            if wanted(row) and is_number(row.get("bytes")):
                lines = charts.setdefault(chart_key(row), {})
                lines.setdefault(line_key(result, row), (result, []))[1].append(row)
    for lines in charts.values():
        for _, rows in lines.values():
            rows.sort(key=lambda row: row["bytes"])
    return charts


def row_time(row):
    return median_of(row.get("time_us"))


def chosen_by_nccl(row):
    return not row.get("forced")


def bandwidth_of(row):
    """(bandwidth, its name): the bus bandwidth; the algorithm bandwidth for one rank, which has no bus bandwidth."""
    bus = row.get("busbw_gbps")
    return (bus, "bus bandwidth") if is_number(bus) else (row.get("algbw_gbps"), "algorithm bandwidth")


def bandwidth_interval(row):
    """The 95 % interval of the bandwidth, from that of the time: the longest time gives the lowest bandwidth."""
    times, (value, _), us = interval_of(row.get("time_us")), bandwidth_of(row), row_time(row)
    if not times or not us or not is_number(value) or min(times) <= 0:
        return None
    return [value * us / times[1], value * us / times[0]]


def interval_text(row):
    times = interval_of(row.get("time_us"))
    return f"{time_text(times[0])} to {time_text(times[1])}" if times else "-"


def choice_of(row):
    """The algorithm and protocol that NCCL chose, for example "RING SIMPLE"; "" if unknown."""
    return " ".join(str(row[key]) for key in ("algorithm", "protocol") if row.get(key))


def row_text(name, row):
    value, what = bandwidth_of(row)
    parts = [name, bytes_text(row.get("bytes")), f"time {time_text(median_of(row.get('time_us')))}",
             f"95 % interval {interval_text(row)}", f"{what} {number_text(value, 'GB/s')}"]
    if choice_of(row):
        parts.append(f"NCCL chose {choice_of(row)}, {row.get('channels', '-')} channels")
    if row.get("wrong"):
        parts.append(f"{row['wrong']} elements are wrong")
    return "<br>".join(parts)


def bands_of(rows):
    """[[first bytes, last bytes, choice]]: ranges of consecutive sizes with the same choice."""
    bands = []
    for row in rows:
        choice = choice_of(row)
        if bands and bands[-1][2] == choice:
            bands[-1][1] = row["bytes"]
        elif choice:
            bands.append([row["bytes"], row["bytes"], choice])
    return bands


def band_marks(rows):
    """(shapes, annotations) of the bands. A band extends to the geometric mean of its last size and the next."""
    bands, shapes, names = bands_of(rows), [], []
    colors = {choice: BANDS[i % len(BANDS)] for i, choice in enumerate(dict.fromkeys(b[2] for b in bands))}
    for i, (first, last, choice) in enumerate(bands):
        low = math.sqrt(first * bands[i - 1][1]) if i else first / 1.5
        high = math.sqrt(last * bands[i + 1][0]) if i + 1 < len(bands) else last * 1.5
        shapes.append({"type": "rect", "xref": "x", "yref": "paper", "x0": low, "x1": high, "y0": 0, "y1": 1,
                       "fillcolor": colors[choice], "opacity": 0.13, "line": {"width": 0}, "layer": "below"})
        names.append({"text": choice, "xref": "x", "yref": "paper", "x": math.log10(math.sqrt(low * high)), "y": 1,
                      "yanchor": "bottom", "showarrow": False, "font": {"size": 11, "color": colors[choice]}})
    return shapes, names


def line_with_bands(lines):
    """The key of the line whose choices are drawn as bands: the first measured line with known choices."""
    def rank(key):
        result, rows = lines[key]
        return (not bands_of(rows), is_plan(result.data))
    return min(lines, key=rank)


def line_names(lines):
    """{line_key: name in the legend}, which includes the file only if there are several."""
    files = {key[0] for key in lines}
    return {key: ", ".join(part for part in (key[0] if len(files) > 1 else "", *key[1:]) if part) or key[0]
            for key in lines}


def without_twins(lines):
    """(lines without those in place whose times are within 1 % of those out of place; the keys of the others)."""
    def times(key):
        return {row["bytes"]: row_time(row) or 0 for row in lines[key][1]}
    twins = [key for key in lines if key[1] == "in place" and (other := (key[0], "out of place", key[2])) in lines
             and times(key).keys() == times(other).keys()
             and all(abs(us - times(other)[size]) <= 0.01 * us for size, us in times(key).items())]
    return {key: found for key, found in lines.items() if key not in twins}, twins


def interval_end(end):
    return lambda row: (interval_of(row.get("time_us")) or (None, None))[end]


COLLECTIVE_COLUMNS = {
    "line": "line", "bytes": "bytes", "time (us)": row_time, "95 % CI low (us)": interval_end(0),
    "95 % CI high (us)": interval_end(1), "algorithm bandwidth (GB/s)": "algbw_gbps",
    "bus bandwidth (GB/s)": "busbw_gbps", "algorithm": "algorithm", "protocol": "protocol", "channels": "channels",
    "NCCL's estimate (us)": "model_us", "wrong elements": "wrong"}


def over_size(results):
    """Two charts per collective: bandwidth and time over message size."""
    for (what, mode), lines in curves(results, chosen_by_nccl).items():
        yield from size_charts(what, mode, lines)


def size_charts(what, mode, lines):
    names = line_names(lines)
    named_rows = [{**row, "line": names[key]} for key, (_, rows) in lines.items() for row in rows]
    lines, twins = without_twins(lines)
    names, sources = line_names(lines), list({id(r): r for r, _ in lines.values()}.values())
    same = " In place: the same within 1 %." if twins else ""
    all_rows = [row for _, rows in lines.values() for row in rows]
    band_line = line_with_bands(lines)
    shapes, bands = band_marks(lines[band_line][1])
    bands_text = f"Colored bands: algorithm and protocol that NCCL chose ({names[band_line]}). " if shapes else ""
    shared = {"sources": sources, "shapes": shapes, "annotations": bands, **table(named_rows, COLLECTIVE_COLUMNS),
              "xaxis": size_axis(r["bytes"] for r in all_rows)}
    metrics = {bandwidth_of(row)[1] for row in all_rows}
    yield Chart(
        f"{what}: {' and '.join(sorted(metrics))} over size ({mode})",
        about=f"Median of the samples with its 95 % confidence interval. {bands_text}Dashed: predicted.{same}", traces=[
            bandwidth_line(names[key], rows, line_style(i, is_plan(result.data)))
            for i, (key, (result, rows)) in enumerate(lines.items())],
        yaxis=axis("GB/s", rangemode="tozero"), **shared)
    times = [row_time(row) for row in all_rows]
    title, per = time_axis(times)
    yield Chart(
        f"{what}: time over size ({mode})", about="Median time of an operation with its 95 % confidence interval. "
        f"{bands_text}Dashed: predicted, or NCCL's own estimate.{same}", traces=[
            trace for i, (key, (result, rows)) in enumerate(lines.items())
            for trace in time_lines(names[key], rows, line_style(i, is_plan(result.data)), per)],
        yaxis=log_axis(title, (t / per for t in times if t)), **shared)


def bandwidth_line(name, rows, style):
    values = [bandwidth_of(row)[0] for row in rows]
    return line(name, [row["bytes"] for row in rows], values, [row_text(name, row) for row in rows], None, **style,
                error_y=error_bars(values, [bandwidth_interval(row) for row in rows], style["line"]["color"]))


def time_lines(name, rows, style, per):
    values = [row_time(row) for row in rows]
    x, color = [row["bytes"] for row in rows], style["line"]["color"]
    scaled = [v / per if is_number(v) else None for v in values]
    intervals = [[t / per for t in interval] if interval else None
                 for interval in (interval_of(row.get("time_us")) for row in rows)]
    yield line(name, x, scaled, [row_text(name, row) for row in rows], None, **style,
               error_y=error_bars(scaled, intervals, color))
    estimates = [row.get("model_us") for row in rows]
    if any(map(is_number, estimates)):
        title = f"{name}: NCCL's estimate"
        yield {"type": "scatter", "mode": "lines", "name": title, "showlegend": False, "x": x,
               "y": [e / per if is_number(e) else None for e in estimates],
               "line": {"color": color, "width": 1.5, "dash": "dash"},
               "hovertext": [f"{title}<br>{bytes_text(b)}<br>{time_text(e)}" for b, e in zip(x, estimates)],
               "hoverinfo": "text"}


# ---- collectives: algorithms -----------------------------------------------------------------------------------------


def algorithms(results):
    """Time over size of every algorithm and protocol that the run forced (--sweep-algorithms)."""
    for result in results:
        if any(row.get("forced") for row in result.rows):
            charts = {}  # the variant graph is of another mode, but in the same chart
            for (what, mode), lines in curves([result], lambda row: row.get("placement") != "in_place").items():
                rows = [row for _, (_, rows) in lines.items() for row in rows]
                charts.setdefault((what, rows[0].get("variant") is None and mode), []).extend(rows)
            yield from (algorithm_chart(result, what, rows) for (what, _), rows in charts.items())


def algorithm_chart(result, what, rows):
    lines = {}
    for row in rows:
        name = row.get("variant") or (choice_of(row) if row.get("forced") else "NCCL's choice")
        lines.setdefault(name or "?", []).append(row)
    times = [row_time(row) for row in rows]
    title, per = time_axis(times)
    traces = []
    for i, (name, line_rows) in enumerate(lines.items()):
        style = line_style(i)
        if name == "NCCL's choice":
            style = {"line": {"color": EXPOSED, "width": 4}, "marker": {"color": EXPOSED, "size": 10, "symbol": "star"}}
        traces.append(line(name, [row["bytes"] for row in line_rows],
                           [row_time(row) / per if row_time(row) else None for row in line_rows],
                           [row_text(name, row) for row in line_rows], None, **style))
    what += ": variants" if rows[0].get("variant") else ": NCCL's choice and the alternatives"
    return Chart(
        f"{what} ({result.name})", [result],
        about="Median time." + (" Thick line: NCCL's own choice." if "NCCL's choice" in lines else ""), traces=traces,
        xaxis=size_axis(row["bytes"] for row in rows), yaxis=log_axis(title, (t / per for t in times if t)),
        **table(algorithm_verdicts(result), VERDICT_COLUMNS))


VERDICT_COLUMNS = {
    "bytes": "bytes", "NCCL's choice": lambda v: choice_of(v.get("chosen") or {}),
    "time of NCCL's choice (us)": lambda v: (v.get("chosen") or {}).get("time_us"),
    "fastest": lambda v: choice_of(v.get("best") or {}),
    "time of the fastest (us)": lambda v: (v.get("best") or {}).get("time_us"), "choice / fastest": "lost_factor",
    "verdict": lambda v: str(v.get("nccl_choice")).replace("_", " ")}


def algorithm_verdicts(result):
    return [v for v in result.data.get("algorithms") or [] if v.get("placement") != "in_place"]


# ---- p2p: heat maps --------------------------------------------------------------------------------------------------


def links(results):
    """A heat map of each matrix, with slow links marked and ranked."""
    for result in results:
        for matrix in result.data.get("matrices") or matrices_of(result.rows):
            yield heat_map(result, matrix)


def matrices_of(rows):
    """Build the matrices from the rows, for a run that ended before it wrote the matrices."""
    found = {}
    for row in rows:
        key = (row.get("metric"), row.get("direction"), row.get("bytes"))
        value = row.get("latency_us") if key[0] == "latency" else row.get("gbps")
        found.setdefault(key, {})[row["from"], row["to"]] = value
    for (metric, direction, size), values in found.items():
        n = 1 + max(max(pair) for pair in values)
        yield {"metric": metric, "direction": direction, "bytes": size, "unit": "us" if metric == "latency" else "GB/s",
               "values": [[values.get((i, j)) for j in range(n)] for i in range(n)]}


def links_of_matrix(links_list, matrix):
    """The links with the metric, direction and size of the matrix."""
    keys = ("metric", "direction", "bytes")
    return [link for link in links_list or [] if all(link.get(key) == matrix.get(key) for key in keys)]


def ratios_of(result, values):
    """The matrix divided by the median of the link class of each element: links within a node, and between nodes."""
    same_node = {(row.get("from"), row.get("to")): bool(row.get("same_node")) for row in result.rows}
    classes = {}
    for i, line_values in enumerate(values):
        for j, value in enumerate(line_values):
            if is_number(value):
                classes.setdefault(same_node.get((i, j)), []).append(value)
    medians = {key: median(found) for key, found in classes.items()}
    return [[value / medians[same_node.get((i, j))] if is_number(value) and medians[same_node.get((i, j))] else None
             for j, value in enumerate(line_values)] for i, line_values in enumerate(values)]


def heat_map(result, matrix):
    values, unit = matrix["values"], matrix.get("unit") or ""
    ranks, hosts = list(range(len(values))), hosts_of(result)
    slow = links_of_matrix(result.data.get("slow_links"), matrix)
    pairs = {(link["from"], link["to"]) for link in slow if link.get("level") == "pair"}
    ratios, latency = ratios_of(result, values), matrix.get("metric") == "latency"
    hover = [[link_text(i, j, values[i][j], unit, ratios[i][j], (i, j) in pairs, hosts) for j in ranks] for i in ranks]
    ends = {"constrain": "domain", **rank_ticks(hosts, len(values))}
    trace = {"type": "heatmap", "x": ranks, "y": ranks, "z": ratios, "hovertext": hover, "hoverinfo": "text",
             "colorscale": RATIOS, "reversescale": latency, "zmin": 0, "zmax": 2, "xgap": 1, "ygap": 1,
             "colorbar": {"outlinewidth": 0, "thickness": 12, "orientation": "h", "y": 0, "yref": "container",
                          "yanchor": "bottom"}}
    if len(values) <= 16:
        trace |= {"text": [[f"{v:.3g}" if is_number(v) else "" for v in line_values] for line_values in values],
                  "texttemplate": "%{text}", "textfont": {"size": 11}}
    causes = links_of_matrix(result.data.get("causes"), matrix) or slow
    marks, framed = slow_marks(causes, pairs, hosts, len(values))
    names_text = ", ".join(framed)
    direction = "both directions at once" if matrix.get("direction") == "both" else "one direction"
    link_rows = [link_row(link, True) for link in slow]
    link_rows += [link_row(link, False) for link in links_of_matrix(result.data.get("slowest_links"), matrix)
              if (link.get("from"), link.get("to")) not in pairs]
    return Chart(
        f"Links: {matrix.get('metric')} of {bytes_text(matrix.get('bytes'))}, {direction} ({result.name})", [result],
        about=f"Rows send to columns. Color: ratio to the median of the links within a node, or between nodes. "
        f"Numbers: {unit}. {f'Red frames: {names_text}.' if framed else 'No link is slow by the criterion of --slow.'}",
        traces=[trace], shapes=marks, height=max(420, min(860, 230 + 34 * len(values))), showlegend=False,
        xaxis=axis("to rank", **ends), yaxis=axis("from rank", autorange="reversed", scaleanchor="x", **ends),
        columns=("position", "level", "from", "to", "same node", f"value ({unit})",
                 f"median of the link class ({unit})", "value / median", "slow"),
        rows=[[i + 1, *row] for i, row in enumerate(link_rows)], notes=bimodal_notes(result, matrix))


def hosts_of(result):
    """{rank: host}"""
    return {d.get("rank"): d["host"] for d in result.data.get("devices") or [] if isinstance(d, dict) and d.get("host")}


def rank_ticks(hosts, n):
    """At most 16 ticks; the first rank of each host has the name of the host."""
    first = [rank for rank in range(n) if hosts.get(rank) and hosts.get(rank) != hosts.get(rank - 1)]
    shown = list(range(n)) if n <= 16 else first or list(range(n))
    shown = shown[::-(-len(shown) // 16)]
    names = [f"{hosts[r]} {r}" if r in first else str(r) for r in shown]
    return {"tickmode": "array", "tickvals": shown, "ticktext": names}


def link_text(i, j, value, unit, ratio, slow, hosts):
    if i == j:
        return f"rank {i}: itself"
    ends = [f"rank {rank}{f' ({hosts[rank]})' if rank in hosts else ''}" for rank in (i, j)]
    return (f"{' to '.join(ends)}<br>{number_text(value, unit)}<br>{number_text(ratio)} of the median of its class"
            f"{'<br>slow' if slow else ''}")


def link_row(link, slow):
    value, usual = link.get("value"), link.get("median")
    ratio = value / usual if is_number(value) and is_number(usual) and usual else None
    return [link.get("level"), link.get("from"), link.get("to"), link.get("same_node"), value, usual, ratio, slow]


def slow_marks(causes, pairs, hosts, n):
    """(frames, their descriptions): the row and the column of each slow rank and node, and slow pairs outside them."""
    bands, texts = [], []
    for cause in causes:
        is_node = cause.get("level") == "node"
        mine = [r for r, host in hosts.items() if host == cause.get("host")] if is_node else [cause.get("from")]
        if cause.get("level") != "pair" and mine and all(map(is_number, mine)):
            bands.append((min(mine), max(mine)))
            name = f"node {cause.get('node')} ({cause.get('host')})" if is_node else f"rank {mine[0]}"
            texts.append(f"links of {name}")
    alone = [pair for pair in pairs if not any(low <= end <= high for low, high in bands for end in pair)]
    texts += [f"{len(alone)} pair{'s' if len(alone) > 1 else ''}"] if alone else []
    boxes = [box for low, high in bands for box in ((0, n - 1, low, high), (low, high, 0, n - 1))]
    frame = {"type": "rect", "line": {"color": EXPOSED, "width": 3}}
    return [{**frame, "x0": x0 - .5, "x1": x1 + .5, "y0": y0 - .5, "y1": y1 + .5}
            for x0, x1, y0, y1 in boxes + [(j, j, i, i) for i, j in sorted(alone)]], texts


def bimodal_notes(result, matrix):
    return [f"The links {'inside a node' if b.get('same_node') else 'between nodes'} are bimodal: "
            f"{b['links'][0]} with median {number_text(b['medians'][0])} and {b['links'][1]} with median "
            f"{number_text(b['medians'][1], matrix.get('unit') or '')}."
            for b in links_of_matrix(result.data.get("bimodal"), matrix)]


# ---- comm, overlap, compute ------------------------------------------------------------------------------------------


STEP_COLUMNS = {"step": "step", "ranks": "ranks", "time (us)": row_time, "fastest rank (us)": "fastest_rank_us",
                "slowest rank": "slowest_rank", "blocking": "blocking"}


def communicators(results):
    """Time of each phase of a communicator's life, by number of ranks."""
    for result in results:
        rows = [row for row in result.rows if row_time(row) is not None]
        absent = [f"{row.get('step')}: {row['absent']}" for row in result.rows if row.get("absent")]
        times = [row_time(row) for row in rows]
        title, per = time_axis(times)
        traces = []
        for i, ranks in enumerate(sorted({row.get("ranks") for row in rows if is_number(row.get("ranks"))})):
            mine = [row for row in rows if row.get("ranks") == ranks]
            values = [row_time(row) / per for row in mine]
            spans = [[t / per for t in interval_of(row["time_us"]) or ()] for row in mine]
            hover = [f"{row['step']}, {ranks} ranks<br>{time_text(row_time(row))}<br>95 % interval "
                     f"{interval_text(row)}<br>slowest rank {row.get('slowest_rank')}" for row in mine]
            traces.append(bars(f"{ranks} ranks", [row["step"] for row in mine], values, hover, SERIES[i % len(SERIES)],
                               error_y=error_bars(values, spans, HIDDEN)))
        yield Chart(
            f"Life cycle of a communicator ({result.name})", [result], traces=traces,
            about="Median over the repeated lifetimes, on the slowest rank.",
            barmode="group", xaxis=name_axis(), yaxis=log_axis(title, (t / per for t in times)),
            **table(rows, STEP_COLUMNS), notes=sorted(set(absent)))


def limits_text(row):
    low, high = row.get("min_ctas"), row.get("max_ctas")
    if low is None and high is None:
        return "default"
    return str(high) if low in (None, high) else f"{low}:{high or ''}"


def median_at(key):
    return lambda row: median_of(row.get(key))


OVERLAP_TIMES = (("compute alone", median_at("compute_alone_us"), COMPUTE),
                 ("communication alone", median_at("comm_alone_us"), HIDDEN), ("both", median_at("both_us"), EXPOSED))
OVERLAP_COLUMNS = {
    "bytes": "bytes", "CTAs": limits_text, **{f"{name} (us)": time for name, time, _ in OVERLAP_TIMES},
    "compute slowdown": "compute_slowdown", "communication slowdown": "comm_slowdown",
    "overlap efficiency": "overlap_efficiency", "lost to communication (us)": "lost_to_comm_us"}


def contention(results):
    """Compute and communication alone and concurrently (bench overlap)."""
    for result in results:
        rows = [row for row in result.rows if isinstance(row.get("both_us"), dict)]
        title, per = time_axis(median_of(row["both_us"]) for row in rows)
        labels = [f"{bytes_text(row.get('bytes'))}, CTAs {limits_text(row)}" for row in rows]
        traces = [bars(name, labels, [(time(row) or 0) / per for row in rows],
                       [f"{label}<br>{name}: {time_text(time(row))}" for label, row in zip(labels, rows)], color)
                  for name, time, color in OVERLAP_TIMES]
        yield Chart(
            f"Compute during communication ({result.name})", [result], traces=traces, barmode="group",
            about="Medians of the samples. With perfect overlap, both together take as long as the longer of the two.",
            xaxis=name_axis(), yaxis=axis(title), **table(rows, OVERLAP_COLUMNS))


COPY_COLUMNS = {"GPU": "rank", "peer": "peer", "bytes": "bytes", "time (us)": row_time, "rate (GB/s)": "gbps",
                "expected (GB/s)": "expected_gbps"}


def copy_text(row):
    """What is copied: "host to gpu, copy engine, pinned memory"."""
    engine = "copy engine" if row.get("engine") == "copy" else row.get("engine")
    at_once = ", all at once" if row.get("concurrent") else ""
    return f"{row.get('link')} {str(row.get('direction')).replace('_', ' ')}, {engine}, {row.get('memory')} memory{at_once}"


def copies(results):
    """Rates of copies between the memories of host and GPUs (bench copy): the median, and the range over all GPUs."""
    for result in results:
        rates = {}
        for row in result.rows:
            if is_number(row.get("gbps")):
                rates.setdefault(copy_text(row), []).append(row["gbps"])
        values = [median(found) for found in rates.values()]
        hover = [f"{name}<br>{number_text(min(found))} to {number_text(max(found))} GB/s over {len(found)} GPUs or pairs"
                 for name, found in rates.items()]
        trace = bars("rate", list(rates), values, hover, COMPUTE,
                     error_y=error_bars(values, [(min(found), max(found)) for found in rates.values()], EXPOSED))
        yield Chart(f"Copies between memories ({result.name})", [result], traces=[trace], xaxis=name_axis(), yaxis=axis("GB/s"),
                    about="Bars: median over the GPUs or pairs of GPUs. Lines: lowest to highest.",
                    **table([{**row, "what": copy_text(row)} for row in result.rows], {"copy": "what", **COPY_COLUMNS}))


def kernel_text(row):
    shape = "x".join(str(row[key]) for key in ("batch", "m", "n", "k") if row.get(key))
    return " ".join(str(part) for part in (row.get("name"), row.get("dtype"), shape) if part)


def timed_text(row):
    rate = f", {number_text(row['requested_gbps'])} GB/s" if row.get("requested_gbps") else ""
    return f"{number_text(row.get('requested_us'))} us, {row.get('sms')} SMs{rate}"


# (section of the rows, chart title, function that labels a row, metric, unit, field with the comparison to a reference)
COMPUTE_SECTIONS = (
    ("gemm", "GEMMs", kernel_text, "tflops", "TFLOP/s", "percent_of_best"),
    ("memory_kernels", "Memory-bound kernels", kernel_text, "gbps", "GB/s", "percent_of_copy"),
    ("timed", "Timed kernels: error, measured with the GPU clock", timed_text, "error_percent", "%",
     "stream_error_percent"),
)


def computing(results):
    """GEMMs, memory-bound kernels and timed kernels (bench compute)."""
    for result in results:
        for section, title, name_of, metric, unit, other in COMPUTE_SECTIONS:
            rows = [row for row in result.rows if row.get("section") == section]
            if rows:
                names = [name_of(row) for row in rows]
                hover = [f"{name}<br>{number_text(row.get(metric), unit)}<br>{time_text(row.get('median_us'))}"
                         for name, row in zip(names, rows)]
                yield stacked(
                    f"{title} ({result.name})", [result], names,
                    [(title, [row.get(metric) for row in rows], hover, COMPUTE)], (unit, 1),
                    height=120 + 24 * len(rows), **table(rows, {
                        "case": name_of, f"{metric} ({unit})": metric, "median (us)": "median_us",
                        "slowest (us)": "max_us", other.replace("_", " "): other}))

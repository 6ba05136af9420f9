"""The timeline of a step from a trace file (--trace): the streams of ranks, with exposed communication in red."""
import collections

from chart import BUBBLE, COMPUTE, DASHES, EXPOSED, HIDDEN, SERIES, Chart, axis, time_axis
from units import byte_unit, bytes_text, is_number, number_text, time_text

MAX_RANKS = 8
MAX_SLICES = 30000
INSIDE = ("waiting", "bubble", "transfer")  # slices nested in the slice of an operation
STEP_THREAD = 0
NESTED_WIDTH = 5  # pixels
MEMORIES = ("training memory", "buffers")  # counters of the memory that a rank holds


def timelines(results):
    for result in results:
        yield timeline(result)
        yield from memories(result)


def union(intervals):
    """The union of intervals as sorted, disjoint [begin, end]."""
    joined = []
    for begin, end in sorted(intervals):
        if joined and begin <= joined[-1][1]:
            joined[-1][1] = max(end, joined[-1][1])
        else:
            joined.append([begin, end])
    return joined


def split_by_cover(begin, end, covers):
    """Split an interval at the borders of a union: [(begin, end, whether the union covers the part)]."""
    parts, at = [], begin
    for low, high in covers:
        if high <= at or low >= end:
            continue
        if low > at:
            parts.append((at, low, False))
        parts.append((max(low, at), min(high, end), True))
        at = min(high, end)
    if at < end:
        parts.append((at, end, False))
    return parts


class Track:
    """One rank of a trace: name, step time, streams and their slices."""

    def __init__(self):
        self.name, self.streams, self.step_us = "", {}, 0
        self.calls, self.inside = collections.defaultdict(list), collections.defaultdict(list)
        self.memory = []  # counter events of the memory that the rank holds


def tracks_of(events):
    tracks = collections.defaultdict(Track)
    for e in events:
        track, thread = tracks[e.get("pid")], e.get("tid")
        if e.get("ph") == "M" and e.get("name") == "process_name":
            track.name = e["args"]["name"]
        elif e.get("ph") == "M" and e.get("name") == "thread_name" and thread != STEP_THREAD:
            track.streams[thread] = e["args"]["name"]
        elif e.get("ph") == "X" and thread == STEP_THREAD:
            track.step_us = max(track.step_us, e["ts"] + e["dur"])
        elif e.get("ph") == "X":
            (track.inside if e.get("cat") in INSIDE else track.calls)[thread].append(e)
        elif e.get("ph") == "C" and e.get("name") in MEMORIES:
            track.memory.append(e)
    return dict(sorted(tracks.items()))


def role_in(track):
    """For example "last stage" from "rank 3 (node0 gpu 3, last stage)"."""
    return track.name.rsplit(",", 1)[-1].rsplit("(", 1)[-1].strip(" )")


def choose(tracks):
    """The ranks to draw: all up to MAX_RANKS, else the slowest and the first of each other role, up to MAX_SLICES."""
    slowest = max(tracks, key=lambda rank: tracks[rank].step_us)
    by_role = {role_in(tracks[slowest]): slowest}
    for rank, track in tracks.items():
        by_role.setdefault(role_in(track), rank)
    wanted = list(by_role.values())
    wanted += tracks if len(tracks) <= MAX_RANKS else ()
    chosen, slices = [], 0
    for rank in dict.fromkeys(wanted):
        slices += sum(map(len, tracks[rank].calls.values()))
        if chosen and (len(chosen) == MAX_RANKS or slices > MAX_SLICES):
            break
        chosen.append(rank)
    return sorted(chosen)


def is_compute(slice_):
    return slice_.get("cat") == "compute"


def hover_of(e, track):
    args = e.get("args") or {}
    parts = [track.name, e["name"], f"from {time_text(e['ts'])}, for {time_text(e['dur'])}"]
    parts += [f"phase {args['phase']}"] if "phase" in args else []
    parts += [f"micro-batch {args['micro_batch']}"] if "micro_batch" in args else []
    parts += [f"for {args['for']}"] if "for" in args else []
    parts += [bytes_text(args["bytes"])] if "bytes" in args else []
    parts += [f"waiting {time_text(args['wait_us'])}"] if is_number(args.get("wait_us")) else []
    parts += [f"bus bandwidth {number_text(args['busbw_gbps'], 'GB/s')}"] if "busbw_gbps" in args else []
    return "<br>".join(parts)


class Lines:
    """Slices of one color as a single path of strokes and gaps (see page.js), which plotly draws faster than bars."""

    def __init__(self, name, color, width=13):
        self.strokes = []
        self.trace = {"type": "scatter", "mode": "lines", "name": name, "strokes": self.strokes, "hoverinfo": "text",
                      "line": {"color": color, "width": width, "simplify": False}, "connectgaps": False}

    def add(self, begin, end, y, hover):
        self.strokes.append([round(begin, 6), round(end, 6), y, hover])


def timeline(result):
    tracks = tracks_of(result.data.get("traceEvents") or [])
    head = result.data["otherData"]
    if not tracks:
        return Chart(f"Timeline of {head.get('proxy')} ({result.name})", [result], notes=["The trace has no events."])
    chosen = choose(tracks)
    title, per = time_axis(track.step_us for track in tracks.values())
    colored = {"compute": Lines("compute", COMPUTE), "hidden": Lines("hidden communication", HIDDEN),
               "exposed": Lines("exposed communication", EXPOSED),
               "bubble": Lines("nested: bubble or waiting", BUBBLE, NESTED_WIDTH)}
    names, table, y = [], [], 0
    for rank in chosen:
        track = tracks[rank]
        busy = union([e["ts"], e["ts"] + e["dur"]] for calls in track.calls.values() for e in calls if is_compute(e))
        for thread, stream in sorted(track.streams.items()):
            if track.calls[thread]:
                names.append(f"rank {rank} {stream}")
                exposed = draw_stream(track, thread, y, busy, per, colored)
                table.append(stream_row(rank, track, thread, stream, exposed))
                y += 1
    slowest = max(tracks, key=lambda rank: tracks[rank].step_us)
    shown = ", ".join(f"{rank} ({role_in(tracks[rank])}{', the slowest' if rank == slowest else ''})"
                      for rank in chosen)
    ranks = f"Ranks shown of {head.get('ranks')}: {shown}. " if len(chosen) < (head.get("ranks") or 0) else ""
    return Chart(
        f"Timeline of {head.get('proxy')} ({result.name})", [result], height=170 + 24 * y,
        about=f"{head.get('summary') or ''}. Streams of a step. Red: communication while no compute kernel of the rank "
        f"ran. {ranks}Drag to zoom, double-click to reset.",
        traces=[lines.trace for lines in colored.values() if lines.strokes],
        xaxis=axis(title), yaxis=axis("", tickmode="array", tickvals=list(range(y)), ticktext=names,
                                                 range=[y - .4, -.6]),
        columns=("rank", "stream", "operations", "busy (us)", "exposed (us)", "waiting (us)"), rows=table)


def memories(result):
    """Memory over time: each use on the rank with the highest peak, and the totals of the other ranks."""
    tracks = {rank: track for rank, track in tracks_of(result.data.get("traceEvents") or []).items() if track.memory}
    if not tracks:
        return
    chosen = choose(tracks)
    peaks = {rank: max(sum(e["args"].values()) for e in tracks[rank].memory) for rank in chosen}
    most = max(chosen, key=peaks.get)
    (per, unit), (title, time_per) = byte_unit(peaks.values()), time_axis(t.step_us for t in tracks.values())

    def steps(rank, values, name, **more):
        events = tracks[rank].memory
        ends, values = [*(e["ts"] for e in events), max(tracks[rank].step_us, events[-1]["ts"])], [*values, values[-1]]
        hover = [f"{name}<br>{bytes_text(value)} from {time_text(at)}" for at, value in zip(ends, values)]
        return {"type": "scatter", "mode": "lines", "name": name, "x": [at / time_per for at in ends],
                "y": [value / per for value in values], "hovertext": hover, "hoverinfo": "text", **more}

    uses = {use: [e["args"][use] for e in tracks[most].memory] for use in tracks[most].memory[0]["args"]}
    drawn = [steps(most, values, use, stackgroup="uses", line={"shape": "hv", "width": 1, "color": SERIES[i]})
             for i, (use, values) in enumerate(uses.items()) if any(values)]
    drawn += [steps(rank, [sum(e["args"].values()) for e in tracks[rank].memory], f"total of rank {rank}",
                    line={"shape": "hv", "width": 1.5, "color": BUBBLE, "dash": DASHES[i % len(DASHES)]})
              for i, rank in enumerate(rank for rank in chosen if rank != most)]
    yield Chart(
        f"Memory of {result.data['otherData'].get('proxy')} over the step ({result.name})", [result], traces=drawn,
        about=f"{tracks[most].memory[0]['name'].capitalize()} of rank {most}, which has the highest peak, by use; "
        "lines: other ranks.", xaxis=axis(title), yaxis=axis(f"memory ({unit})", rangemode="tozero"),
        columns=("rank", "peak (bytes)", *(f"{use} (bytes)" for use in uses)),
        rows=[[rank, peaks[rank], *(max(e["args"][use] for e in tracks[rank].memory) for use in uses)]
              for rank in chosen])


def draw_stream(track, thread, y, busy, per, colored):
    """Add the slices of a stream to the lines of their color. Returns the exposed time in us."""
    exposed = 0
    for e in track.calls[thread]:
        begin, end, hover = e["ts"], e["ts"] + e["dur"], hover_of(e, track)
        if is_compute(e):
            colored["compute"].add(begin / per, end / per, y, hover)
            continue
        for low, high, covered in split_by_cover(begin, end, busy):
            exposed += 0 if covered else high - low
            colored["hidden" if covered else "exposed"].add(low / per, high / per, y, hover)
    for e in track.inside[thread]:
        if e.get("cat") != "transfer":
            colored["bubble"].add(e["ts"] / per, (e["ts"] + e["dur"]) / per, y, f"{e['cat']}<br>{time_text(e['dur'])}")
    return exposed


def stream_row(rank, track, thread, stream, exposed):
    calls = track.calls[thread]
    waits = [(e.get("args") or {}).get("wait_us") for e in calls]
    return [rank, stream, len(calls), sum(e["dur"] for e in calls), None if all(map(is_compute, calls)) else exposed,
            sum(w for w in waits if is_number(w)) if any(map(is_number, waits)) else None]

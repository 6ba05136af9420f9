"""Charts of training steps: what `busbar proxy` ran and what `busbar plan` predicted."""
from chart import (BUBBLE, COMPUTE, EXPOSED, HIDDEN, IDLE, SERIES, SLOWER, WAITING, Chart, axis, line, log_axis,
                   name_axis, stacked, table, time_axis)
from units import byte_unit, bytes_text, duration_text, is_number, median_of, number_text, settings_text, share_text, time_text

# Why a step takes longer than its compute: (name, field of lost_to_comm, field of a breakdown, color).
TERMS = (("slower kernels", "slowdown_us", None, SLOWER),
         ("exposed transfer", "transfer_us", "exposed_transfer_us", EXPOSED),
         ("bubble", "bubble_us", "bubble_us", BUBBLE),
         ("waiting for peers", "waiting_us", "exposed_waiting_us", WAITING),
         ("idle", "idle_us", "idle_us", IDLE))

# The term "slower kernels" below 0: without communication, the GPU waits longer for launches (as `busbar proxy` names it).
FASTER = "host time hidden by communication"


def title_of(result):
    return f"{result.text('proxy') or 'step'} ({result.name})"


def breakdown_of(result):
    """The breakdown of the slowest rank, measured or predicted; {} if the file has none."""
    return result.of_step("breakdown") or {}


def with_breakdown(results):
    return [result for result in results if breakdown_of(result)]


def role_of(result):
    """The role of the slowest rank; "" if unknown."""
    b = breakdown_of(result)
    roles = [role.get("name") for role in result.data.get("roles") or [] if b.get("rank") in (role.get("ranks") or [])]
    return b.get("role") or (roles[0] if roles else "")


# ---- waterfall -------------------------------------------------------------------------------------------------------


def terms_of(result):
    """(compute us, [(name, us, color)], hidden us, step us, whether compute was measured without communication)."""
    b, lost = breakdown_of(result), (result.data.get("overlap") or {}).get("lost_to_comm") or {}
    alone = is_number(lost.get("total_us"))
    source, terms = lost if alone else b, TERMS
    if not any(is_number(source.get(term[1 if alone else 2])) for term in TERMS[1:4]):
        terms = (("exposed communication", "exposed_us", "exposed_us", EXPOSED), TERMS[0], TERMS[4])
    terms = [(name, source.get(of_lost if alone else of_breakdown), color)
             for name, of_lost, of_breakdown, color in terms]
    terms = [(FASTER if name == "slower kernels" and us < 0 else name, us, color) for name, us, color in terms if is_number(us)]
    step = b.get("step_us")
    compute = step - sum(us for _, us, _ in terms) if alone else b.get("compute_us")
    hidden = (b.get("comm_us") or 0) - (b.get("exposed_us") or 0)
    return compute, terms, hidden, step, alone


def waterfalls(results):
    """One waterfall chart per result: from the compute time to the step time."""
    for result in with_breakdown(results):
        yield waterfall(result)


def waterfall(result):
    compute, terms, hidden, step, alone = terms_of(result)
    title, per = time_axis([step])
    blocks, at = [("compute alone" if alone else "compute", 0, compute, COMPUTE)], compute
    if hidden > 0:
        blocks.append(("hidden communication", max(0, compute - hidden), min(hidden, compute), HIDDEN))
    for name, us, color in terms:
        if us:
            blocks.append((name, at, us, color))
        at += us
    blocks.append(("step", 0, step, COMPUTE))
    names, starts, times, colors = map(list, zip(*blocks))
    shares = [us / step if step else None for us in times]
    trace = {"type": "bar", "x": names, "base": [start / per for start in starts], "y": [us / per for us in times],
             "hovertext": [f"{name}<br>{time_text(us)}<br>{share_text(share)} of the step"
                           for name, us, share in zip(names, times, shares)], "hoverinfo": "text",
             "marker": {"color": colors, "pattern": {"shape": ["/" if color == HIDDEN else "" for color in colors]}},
             "text": [time_text(us) for us in times], "textposition": "outside", "cliponaxis": False}
    rank, role = breakdown_of(result).get("rank"), role_of(result)
    slowed = "" if alone else " Compute includes its slowdown by concurrent communication."
    return Chart(
        f"{title_of(result)}: from compute to the step", [result], traces=[trace], showlegend=False,
        about=f"Slowest rank: {rank}{f' ({role})' if role else ''}. Hatched: communication hidden by compute, no cost. "
        f"Bars to its right add to the step.{slowed}", xaxis=name_axis(), yaxis=axis(title),
        columns=("part", "time (us)", "fraction of the step"), rows=list(zip(names, times, shares)))


# ---- stacked bars ----------------------------------------------------------------------------------------------------

BREAKDOWN_PARTS = (("compute", "compute_us", COMPUTE), ("exposed transfer", "exposed_transfer_us", EXPOSED),
                   ("bubble", "bubble_us", BUBBLE), ("waiting for peers", "exposed_waiting_us", WAITING),
                   ("idle", "idle_us", IDLE))
WITHOUT_CAUSES = (BREAKDOWN_PARTS[0], ("exposed communication", "exposed_us", EXPOSED), BREAKDOWN_PARTS[4])
HIDDEN_ABOUT = "Hidden: the fraction of the communication time that overlaps compute."


def stacked_steps(title, sources, names, steps, about, first="role"):
    """Steps as stacked bars of their parts. steps: breakdowns."""
    parts = BREAKDOWN_PARTS if any(is_number(s.get("exposed_transfer_us")) for s in steps) else WITHOUT_CAUSES
    parts = [part for part in parts if any(is_number(s.get(part[1])) for s in steps)]  # stages in lock step: no bubble
    bars = [(name, [s.get(key) for s in steps],
             [f"{one}<br>{name}: {time_text(s.get(key))}<br>step {time_text(s.get('step_us'))}"
              for one, s in zip(names, steps)], color) for name, key, color in parts]
    fields = {"rank": "rank", **{f"{name} (us)": key for name, key, _ in parts}, "step (us)": "step_us",
              "hidden": "overlap_fraction", "memory (bytes)": "memory_bytes"}
    fields = {column: key for column, key in fields.items() if any(s.get(key) is not None for s in steps)}
    rows = [{**s, "name": name} for name, s in zip(names, steps)]
    return stacked(title, sources, names, bars, time_axis(s.get("step_us") for s in steps), about=about,
                   **table(rows, {first: "name", **fields}))


def by_role(results):
    """The breakdown of the slowest rank of each role, as stacked bars."""
    for result in with_breakdown(results):
        roles = result.of_step("breakdown_by_role") or []
        if len(roles) > 1:
            names = [role.get("role") or f"rank {role.get('rank')}" for role in roles]
            yield stacked_steps(f"{title_of(result)}: the step by role", [result], names, roles,
                                f"The slowest rank of each role. {HIDDEN_ABOUT}")


def layout_name(layout):
    """For example "tp 2, cp 4, pp 4, dp 16, interleaved 5": what differs from 1 and from the default."""
    sizes = [f"{key} {layout[key]}" for key in ("tp", "cp", "ep", "pp", "dp")
             if is_number(layout.get(key)) and layout[key] > 1]
    if layout.get("schedule") and (layout.get("pp") or 1) > 1:
        sizes.append(layout["schedule"] + (f" {layout['vpp']}" if (layout.get("vpp") or 1) > 1 else ""))
    if (layout.get("micro_batch_size") or 1) > 1:
        sizes.append(f"micro-batch {layout['micro_batch_size']}")
    if layout.get("recompute") not in (None, "none"):
        sizes.append(f"recompute {layout['recompute']}")
    if layout.get("dp_sync") not in (None, "all_reduce"):
        sizes.append(str(layout["dp_sync"]))
    return ", ".join(sizes) or "one rank"


def tick_name(i, layout):
    """The name of a layout with its position, on two lines if it is long."""
    name = f"{i + 1}. {layout_name(layout)}"
    middle = name.find(", ", 22)
    return name if middle < 0 else f"{name[:middle + 1]}<br>{name[middle + 2:]}"


def layouts(results):
    """The ten best layouts of --best-layout, as stacked bars of the parts of the step."""
    for result in results:
        best = ((result.data.get("best_layout") or {}).get("layouts") or [])[:10]
        if best:
            yield stacked_steps(f"{title_of(result)}: the best layouts", [result],
                                [tick_name(i, one) for i, one in enumerate(best)], best,
                                "Step time of the slowest rank by cause, best layout first.", "layout")


def compared_steps(result):
    """The rows of a comparison of several steps, fastest first; [] for a comparison row by row."""
    steps = [row for row in result.rows if row.get("file") and is_number(row.get("step_us"))]
    return sorted(steps, key=lambda row: row["step_us"])


def compared(results):
    """The steps that `compare A B C...` tabulates, as stacked bars."""
    for result in results:
        rows = compared_steps(result)
        if rows:
            yield stacked_steps(f"Steps by file ({result.name})", [result], [row["file"] for row in rows], rows,
                                "Step time of the slowest rank by cause, fastest first.", "file")


def all_proxies(results):
    """The breakdown of each proxy of a `proxy all` run."""
    for result in results:
        rows = [row for row in result.rows if row.get("breakdown")]
        if rows:
            yield stacked_steps(f"All proxies: breakdown of the step ({result.name})", [result],
                                [row.get("proxy") for row in rows], [row["breakdown"] for row in rows], HIDDEN_ABOUT)


GROUP_COLUMNS = {"group": "name", "bytes": "bytes", "busy (us)": "busy_us", "exposed (us)": "exposed_us",
                 "waiting (us)": "waiting_us", "transfer (us)": "transfer_us", "bus bandwidth (GB/s)": "busbw_gbps"}


def by_group(results):
    """Hidden and exposed time of each communicator group."""
    for result in with_breakdown(results):
        groups = [g for g in result.of_step("groups") or [] if is_number(g.get("busy_us"))]
        if not groups:
            continue
        names, exposed = [g.get("name") for g in groups], [g.get("exposed_us") or 0 for g in groups]
        hidden = [max(0, g["busy_us"] - us) for g, us in zip(groups, exposed)]
        parts = [("hidden", hidden, [f"{n}<br>hidden {time_text(us)}" for n, us in zip(names, hidden)], HIDDEN),
                 ("exposed", exposed, [f"{g.get('name')}<br>exposed {time_text(g.get('exposed_us'))}<br>bus bandwidth "
                                       f"{number_text(g.get('busbw_gbps'), 'GB/s')}" for g in groups], EXPOSED)]
        yield stacked(
            f"{title_of(result)}: communication by group", [result], names, parts,
            time_axis(g["busy_us"] for g in groups), **table(groups, GROUP_COLUMNS), about="On the slowest rank. "
            "Groups can overlap each other, so the sum of their exposed times can exceed that of the step.")


WAITING_COLUMNS = {"role": "role", "group": "group", "ranks": "ranks", "median (us)": "median_us",
                   "longest (us)": "most_us", "by rank": "most_rank", "mostly for rank": "waited_for",
                   "namely (us)": "waited_for_us"}


def waits_of(result, min_us):
    """What the ranks of a role wait for in a group, longest wait first; without waits shorter than min_us."""
    rows = [row for row in result.of_step("waiting") or [] if is_number(row.get("most_us")) and
            row["most_us"] >= max(min_us, 1e-9)]
    return sorted(rows, key=lambda row: -row["most_us"])


def wait_text(row):
    """A plan does not name the rank that arrives last."""
    last = f", mostly for rank {row['waited_for']}" if is_number(row.get("waited_for")) else ""
    return f"Rank {row.get('most_rank')} waits {time_text(row['most_us'])} in {row.get('group')}{last}"


def waiting(results):
    """How long the ranks of each role and group wait for the last rank to arrive; in a run also for which rank."""
    for result in with_breakdown(results):
        rows = waits_of(result, 1e-3 * (breakdown_of(result).get("step_us") or 0))
        if rows:
            texts = [wait_text(row) for row in rows]
            yield stacked(
                f"{title_of(result)}: waiting for late ranks", [result],
                [f"{row.get('role')}, {row.get('group')}" for row in rows],
                [("longest wait", [row["most_us"] for row in rows], texts, WAITING)],
                time_axis(row["most_us"] for row in rows), **table(rows, WAITING_COLUMNS), about=f"{texts[0]}. "
                f"A rank waits in a call until the last participant arrives; compute may hide the wait.")


# ---- duration of training ---------------------------------------------------------------------------------------------

# (name, share of the duration, color)
FAILURE_PARTS = (("lost steps", "lost_steps", EXPOSED), ("checkpoints", "checkpoints", BUBBLE),
                 ("restarts", "restarts", WAITING), ("waiting for nodes", "node_wait", IDLE))
FAILURE_COLUMNS = {"file": "file", "days": "days", "GPU hours": "gpu_hours", "goodput": "goodput",
                   **{name: key for name, key, _ in FAILURE_PARTS}, "checkpoint interval (s)": "interval_s",
                   "mean time between failures (s)": "mtbf_s"}


def trainings(results):
    """The days of training with failures (--mtbf-node): what is lost, a bar for each file."""
    shown = [(result, ((result.data.get("predicted") or {}).get("training") or {}).get("with_failures") or {})
             for result in results]
    shown = [(result, failing) for result, failing in shown if is_number(failing.get("days"))]
    if not shown:
        return
    rows = [{**failing, "file": result.name} for result, failing in shown]
    names, parts = [row["file"] for row in rows], [("useful steps", "goodput", COMPUTE), *FAILURE_PARTS]
    yield stacked(
        "Duration of training with failures", [result for result, _ in shown], names,
        [(name, [row["days"] * (row.get(key) or 0) for row in rows],
          [f"{row['file']}<br>{name}: {row['days'] * (row.get(key) or 0):.3g} days, {share_text(row.get(key))}"
           for row in rows], color) for name, key, color in parts], ("days", 1), **table(rows, FAILURE_COLUMNS),
        about=f"{names[0]}: {duration_text(rows[0].get('interval_s'))} of training between two checkpoints, a failure every "
        f"{duration_text(rows[0].get('mtbf_s'))}. Lost steps: those since the last checkpoint, which a failure repeats.")


# ---- traffic and memory ----------------------------------------------------------------------------------------------


def traffic(results):
    """Bytes per step by role, group and kind of operation."""
    for result in results:
        roles = result.data.get("roles") or []
        sums = {}
        for i, role in enumerate(roles):
            for t in role.get("traffic") or []:
                key = f"{t.get('group')} {str(t.get('kind')).replace('_', '-')}"
                sums.setdefault(key, [0] * len(roles))[i] += t.get("bytes") or 0
        if sums:
            names = [role.get("name") for role in roles]
            yield stacked_bytes(f"{title_of(result)}: traffic per step", [result], names, sums,
                                "Payload in bytes that one rank of each role sends, receives or reduces per step.")


def stacked_bytes(title, sources, names, sums, about, **more):
    """sums: {part: [bytes of each name]}."""
    totals = [sum(values) for values in zip(*sums.values())]
    per, unit = byte_unit(totals)
    parts = [(part, values, [f"{n}<br>{part}: {bytes_text(v)}" for n, v in zip(names, values)], SERIES[i % len(SERIES)])
             for i, (part, values) in enumerate(sums.items())]
    return stacked(title, sources, names, parts, (unit, per), about=about,
                   columns=("role", *(f"{part} (bytes)" for part in sums), "total (bytes)"),
                   rows=list(zip(names, *sums.values(), totals)), **more)


MEMORIES = (("training_memory_bytes", "training"), ("memory_bytes", "buffers of the proxy"))


def memory_of(result):
    return result.of_step("memory") or {}


def memory(results):
    """Memory of each role as stacked bars, with the capacity of the GPU if it is known."""
    for result in results:
        available = memory_of(result).get("available_bytes")
        for key, purpose in MEMORIES:
            roles = [role for role in result.data.get("roles") or []
                     if isinstance(role.get(key), dict) and role[key].get("total")]
            if roles:
                yield memory_chart(result, roles, key, purpose, available)


def memory_chart(result, roles, key, purpose, available):
    sums = {part: [role[key].get(part) or 0 for role in roles] for part in roles[0][key] if part != "total"}
    sums = {part: values for part, values in sums.items() if any(values)}
    totals, more = [sum(values) for values in zip(*sums.values())], {}
    about = f"Memory of one rank of each role: {purpose}."
    if is_number(available):
        at = available / byte_unit(totals)[0]
        more = {"shapes": [{"type": "line", "xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1,
                            "line": {"color": EXPOSED, "width": 2, "dash": "dash"}}],
                "annotations": [{"text": f"GPU memory: {bytes_text(available)}", "xref": "x", "yref": "paper", "x": at,
                                 "y": 1, "yanchor": "bottom", "showarrow": False}]}
        above = [role["name"] for role, total in zip(roles, totals) if total > available]
        about += f" Does not fit: {', '.join(above)}." if above else f" Fits in {bytes_text(available)}."
    return stacked_bytes(f"{title_of(result)}: memory, {purpose}", [result], [role.get("name") for role in roles], sums,
                         about, **more)


def orders(results):
    """Inter-node bytes for each order of the parallelism axes (--best-order)."""
    for result in results:
        found = (result.data.get("best_order") or {}).get("orders") or []
        if found:
            names = [o.get("order") + (" (this plan)" if o.get("requested") else "") for o in found]
            parts = list(dict.fromkeys(group for o in found for group in o.get("groups") or {}))
            sums = {part: [(o.get("groups") or {}).get(part, 0) for o in found] for part in parts}
            yield stacked_bytes(f"{title_of(result)}: inter-node bytes by order of the parallelism axes", [result],
                                names, sums, "Sum over all nodes, per step, by group; lowest first.")


# ---- scaling ---------------------------------------------------------------------------------------------------------


def rate_of(data):
    """(unit, rate per second) of a proxy or plan, for example ("tokens", 1e5); None if the result has no rate."""
    scaling, predicted = data.get("scaling") or {}, data.get("predicted") or {}
    found = (("images", scaling.get("images_per_s")), ("tokens", data.get("tokens_per_s")),
             ("tokens", predicted.get("tokens_per_s")), ("samples", data.get("samples_per_s")),
             ("steps", per_second(median_of(data.get("step_us")) or predicted.get("step_us"))))
    return next(((what, value) for what, value in found if is_number(value)), None)


def per_second(us):
    return 1e6 / us if is_number(us) and us > 0 else None


IGNORED = {"json", "trace", "baseline", "dp", "quiet", "timeout", "ranks"}


def runs_of(result):
    """[(line, ranks, data)]: the runs of a file. Runs with the same line differ only in their number of ranks."""
    if result.kind != "sweep":
        options = {k: v for k, v in (result.data.get("options") or {}).items() if k not in IGNORED}
        line_key = result.text("proxy"), repr(sorted(options.items(), key=str))
        return [(line_key, result.data.get("ranks"), result.data)]
    runs = []
    for c in result.data.get("combinations") or []:
        if isinstance(c.get("result"), dict) and c["result"].get("proxy"):
            settings = {k: v for k, v in (c.get("settings") or {}).items() if k != "ranks"}
            runs.append(((settings_text(settings) or result.name, result.path), c["result"].get("ranks"), c["result"]))
    return runs


def scaling(results):
    """Rate over ranks with the ideal line, for all configurations that ran with two or more numbers of ranks."""
    lines = {}
    for result in results:
        for key, ranks, data in runs_of(result):
            rate = rate_of(data)
            if rate and is_number(ranks):
                lines.setdefault((*key, rate[0]), {}).setdefault(ranks, (rate[1], result))
    lines = {key: points for key, points in lines.items() if len(points) > 1}
    for what in dict.fromkeys(key[-1] for key in lines):
        mine = {key[0]: points for key, points in lines.items() if key[-1] == what}
        sources = list({id(r): r for points in mine.values() for _, r in points.values()}.values())
        yield scaling_chart(what, mine, sources)


def scaling_chart(what, lines, sources):
    traces, rows = [], []
    for i, (name, points) in enumerate(lines.items()):
        ranks = sorted(points)
        rates, color = [points[n][0] for n in ranks], SERIES[i % len(SERIES)]
        ideal = [rates[0] * n / ranks[0] for n in ranks]
        hover = [f"{name}<br>{n} ranks<br>{number_text(r)} {what}/s<br>efficiency {share_text(r / best)}"
                 for n, r, best in zip(ranks, rates, ideal)]
        ideal_hover = [f"ideal<br>{n} ranks<br>{number_text(b)} {what}/s" for n, b in zip(ranks, ideal)]
        traces += [line(name, ranks, rates, hover, color),
                   line(f"{name}: ideal", ranks, ideal, ideal_hover, color, mode="lines",
                        line={"color": color, "width": 1.5, "dash": "dash"})]
        rows += [[name, n, r, r / rates[0], r / best] for n, r, best in zip(ranks, rates, ideal)]
    ticks = sorted({n for points in lines.values() for n in points})
    return Chart(
        f"Scaling: {what} per second over ranks", sources, traces=traces,
        about="Dashed: linear scaling from the smallest run of each line.",
        xaxis=axis("ranks", type="log", tickmode="array", tickvals=ticks, ticktext=[str(n) for n in ticks]),
        yaxis=log_axis(f"{what} per second", (rate for points in lines.values() for rate, _ in points.values())),
        columns=("line", "ranks", f"{what} per second", "speed-up", "efficiency"), rows=rows)

"""The findings of a result in sentences: problems first, then the main values and their causes."""
import collections
import math
from statistics import median_high

from charts import CONTENT_ERRORS, does_not_match
from measured import algorithm_verdicts, bandwidth_of, choice_of, limits_text
from steps import TERMS, breakdown_of, compared_steps, layout_name, memory_of, rate_of, role_of, terms_of
from tables import is_over, row_name
from units import bytes_text, is_number, median_of, number_text, share_text, time_text


def of(result):
    """The sentences of a result, most important first; raises Unreadable."""
    make = FINDINGS.get(result.kind, lambda result: ())
    try:
        sentences = list(make(result))
    except CONTENT_ERRORS as error:
        raise does_not_match(result, error) from error
    status = result.text("status")
    return sentences if status in ("", "ok") else [f"FAILED: {result.text('reason') or status}.", *sentences]


def names(items, most=4):
    items = [str(item) for item in items]
    return ", ".join(items[:most]) + (f" and {len(items) - most} more" if len(items) > most else "")


def times_text(ratio):
    return f"{ratio:.3g} times"


# ---- bench -----------------------------------------------------------------------------------------------------------


def collectives(result):
    wrong = [row for row in result.rows if row.get("wrong")]
    if wrong:
        yield f"WRONG DATA in {len(wrong)} of {len(result.rows)} rows, the first at {bytes_text(wrong[0].get('bytes'))}."
    yield from slow_groups(result)
    yield from late_ranks(result)
    by_name = collections.defaultdict(list)
    for row in result.rows:
        if not row.get("forced") and is_number(bandwidth_of(row)[0]):
            by_name[row.get("collective")].append(row)
    for name, rows in by_name.items():
        best, small = max(rows, key=lambda row: bandwidth_of(row)[0]), min(rows, key=lambda row: row.get("bytes") or 0)
        value, what = bandwidth_of(best)
        latency = f"; {bytes_text(small.get('bytes'))} takes {time_text(median_of(small.get('time_us')))}" if small is not best else ""
        yield f"{name} reaches {number_text(value, 'GB/s')} of {what} at {bytes_text(best.get('bytes'))}{latency}."
    not_best = [v for v in algorithm_verdicts(result) if v.get("nccl_choice") == "not_best" and is_number(v.get("lost_factor"))]
    if algorithm_verdicts(result):
        yield f"NCCL's choice is not the fastest at {len(not_best)} of {len(algorithm_verdicts(result))} sizes."
    if not_best:
        worst = max(not_best, key=lambda v: v["lost_factor"])
        yield (f"Largest loss: at {bytes_text(worst.get('bytes'))}, {choice_of(worst.get('chosen') or {})} takes "
               f"{times_text(worst['lost_factor'])} as long as {choice_of(worst.get('best') or {})}.")


def slow_groups(result):
    """With --split: groups whose bus bandwidth at the largest size is below 90 % of the median group."""
    rows = [row for row in result.rows if is_number(row.get("group")) and is_number(bandwidth_of(row)[0])]
    size = max((row["bytes"] for row in rows), default=0)
    groups = {}
    for row in rows:
        if row["bytes"] == size:
            groups[row["group"]] = min(bandwidth_of(row)[0], groups.get(row["group"], math.inf))
    if len(groups) > 1:
        usual = median_high(groups.values())
        for group in sorted((g for g in groups if groups[g] < 0.9 * usual), key=groups.get):
            yield (f"Group {group}{members(result, group)} is slow: {number_text(groups[group], 'GB/s')} at {bytes_text(size)}, "
                   f"{share_text(groups[group] / usual)} of the {number_text(usual, 'GB/s')} of the median group.")


def members(result, group):
    """The hosts and ranks of a group, if the file names them."""
    for known in result.data.get("groups") or []:
        if isinstance(known, dict) and known.get("group") == group:
            hosts = known.get("hosts") or []
            return f" ({names(hosts)}; ranks {names(known.get('ranks') or [])})"
    return ""


def late_ranks(result):
    """The rank that arrives last in more than half of the samples, in most of the rows with arrival skew."""
    skews = [row["skew"] for row in result.rows if isinstance(row.get("skew"), dict)]
    late = collections.Counter(skew.get("straggler") for skew in skews if is_number(skew.get("straggler")))
    for rank, n in late.most_common(1):
        if n > len(skews) / 2:
            yield f"Rank {rank}{host_of(result, rank)} arrives last in {n} of {len(skews)} rows."


def host_of(result, rank):
    hosts = [d.get("host") for d in result.data.get("devices") or [] if isinstance(d, dict) and d.get("rank") == rank]
    return f" ({hosts[0]})" if hosts and hosts[0] else ""


def links(result):
    """What explains the slow links, each node, rank and pair once."""
    seen = set()
    for cause in result.data.get("causes") or []:
        host = f" ({cause.get('host')})"
        what = {"node": f"node {cause.get('node')}{host}", "rank": f"rank {cause.get('from')}{host}", "class": "all ranks"}.get(
            cause.get("level"), f"{cause.get('from')} to {cause.get('to')}{host}")
        if what not in seen:
            seen.add(what)
            unit = "us" if cause.get("metric") == "latency" else "GB/s"
            yield (f"Slow: {what}, {cause.get('slow')} of {cause.get('links')} {'intra' if cause.get('same_node') else 'inter'}"
                   f"-node links, {cause.get('metric')} {number_text(cause.get('value'), unit)} instead of "
                   f"{number_text(cause.get('median'), unit)} at {bytes_text(cause.get('bytes'))}.")
    slow = sum(link.get("level") == "pair" for link in result.data.get("slow_links") or [])
    if result.rows and not seen:
        yield f"{slow} links are slow by the criterion of --slow."


def communicators(result):
    ranks = max((row.get("ranks") or 0 for row in result.rows), default=0)
    rows = [row for row in result.rows if row.get("ranks") == ranks and is_number(median_of(row.get("time_us")))]
    for row in sorted(rows, key=lambda row: -median_of(row["time_us"]))[:1]:
        yield (f"The longest step of a communicator's life on {ranks} ranks is {row.get('step')}: "
               f"{time_text(median_of(row['time_us']))}, on rank {row.get('slowest_rank')}{host_of(result, row.get('slowest_rank'))}.")


def overlap(result):
    for best in result.data.get("best") or []:
        row = next((r for r in result.rows if all(r.get(key) == best.get(key) for key in ("bytes", "min_ctas", "max_ctas"))), {})
        tied = f" (a tie with {names(best['tied'])})" if best.get("tied") else ""
        yield (f"{row.get('collective')} of {bytes_text(best.get('bytes'))} and GEMMs together are fastest with CTAs {limits_text(best)}{tied}: "
               f"overlap efficiency {number_text(row.get('overlap_efficiency'))}, GEMMs {times_text(row.get('compute_slowdown') or 1)} as long as alone.")


def compute(result):
    for gpu in result.data.get("slow_gpus") or []:
        yield (f"Slow: GPU {gpu.get('gpu')} of {gpu.get('host')} (rank {gpu.get('rank')}), in {gpu.get('results')} of {gpu.get('of')} results, "
               f"up to {times_text(gpu.get('worst_slowdown') or 1)} the time of the median rank.")
    limits = result.data.get("limits") or {}
    rates = [f"{dtype} {number_text(rate)}" for dtype, rate in (limits.get("tflops") or {}).items()]
    if rates:
        yield f"Best rate of GEMMs in TFLOP/s: {names(rates, 6)}. Copies reach {number_text(limits.get('copy_gbps'), 'GB/s')}."


# ---- steps -----------------------------------------------------------------------------------------------------------


def step(result):
    data, predicted = result.data, result.data.get("predicted") or {}
    layouts = (data.get("best_layout") or {}).get("layouts")
    if layouts is not None:
        yield from best_layout(layouts, data["best_layout"])
        return
    yield from memory_and_checks(result)
    us = median_of(data.get("step_us")) or predicted.get("step_us")
    if is_number(us):
        verb = "would take" if memory_of(result).get("fits") is False else "takes"
        yield f"A step {verb} {time_text(us)} on {data.get('ranks')} ranks{rates_text(data, predicted)}."
    yield from exposed(result)
    if predicted.get("slow"):
        yield f"Predicted with slow or late parts (--slow, --delay): {', '.join(predicted['slow'])}."
    late = data if is_number(data.get("late_rank")) else predicted
    if is_number(late.get("late_rank")):
        yield f"All wait for rank {late['late_rank']} (node {late.get('late_node')}){host_of(result, late['late_rank'])}."
    for row in waiting_rows(data, predicted)[:1]:
        if is_number(us) and row["most_us"] > 0.02 * us:
            yield (f"Rank {row.get('most_rank')} waits {time_text(row['most_us'])} in {row.get('group')}, mostly for rank "
                   f"{row['waited_for']}{host_of(result, row['waited_for'])}.")
    training = predicted.get("training") or {}
    if training:
        yield (f"{number_text(training.get('tokens'))} tokens take {number_text(training.get('days'))} days, "
               f"{number_text(training.get('gpu_hours'))} GPU hours.")
    orders = (data.get("best_order") or {}).get("orders") or []
    for order in orders[:1]:
        yield f"The order {order.get('order')} sends the fewest bytes between nodes: {bytes_text(order.get('inter_node_bytes'))} per step."


def rates_text(data, predicted):
    """Rate and utilisation, as far as the file has them."""
    what, rate = rate_of(data) or ("steps", None)
    parts = [number_text(rate, f"{what}/s")] if what != "steps" else []
    for key, form in (("tflops_per_gpu", lambda v: number_text(v, "TFLOP/s per GPU")),
                      ("model_flop_utilisation", lambda v: f"{share_text(v)} model FLOP utilisation")):
        value = data.get(key) if is_number(data.get(key)) else predicted.get(key)
        parts += [form(value)] if is_number(value) else []
    return f": {', '.join(parts)}" if parts else ""


def memory_and_checks(result):
    memory, checks = memory_of(result), result.data.get("checks") or {}
    if memory.get("fits") is False:
        yield (f"DOES NOT FIT: the {memory.get('of')} needs {bytes_text(memory.get('needed_bytes'))} of "
               f"{bytes_text(memory.get('available_bytes'))} per GPU.")
    for fault in (checks.get("faults") or [])[:3]:
        yield f"The step is invalid: {fault}."


def exposed(result):
    b = breakdown_of(result)
    if not b or not is_number(b.get("exposed_us")) or not b.get("step_us"):
        return
    causes = [(name, us) for name, us, _ in terms_of(result)[1] if name != "slower kernels" and name != "idle" and us > 0]
    cause = max(causes, key=lambda c: c[1], default=None)
    groups = [g for g in (result.data.get("predicted") or {}).get("groups") or result.data.get("groups") or []
              if is_number(g.get("exposed_us"))]
    group = max(groups, key=lambda g: g["exposed_us"], default=None)
    text = f"{share_text(b['exposed_us'] / b['step_us'])} of the step is exposed communication"
    text += f", mostly {cause[0]} ({time_text(cause[1])})" if cause and cause[0] != "exposed communication" else ""
    text += f"; most of it in group {group.get('name')} ({time_text(group['exposed_us'])})" if group and group["exposed_us"] > 0 else ""
    role = role_of(result)
    yield f"{text}. The slowest rank is {b.get('rank')}{host_of(result, b.get('rank'))}{f', {role}' if role else ''}."


def waiting_rows(data, predicted):
    """What ranks wait for, longest first, except for the pipeline, whose waiting is the bubble."""
    rows = [row for row in data.get("waiting") or predicted.get("waiting") or []
            if is_number(row.get("waited_for")) and is_number(row.get("most_us")) and row.get("group") != "pp"]
    return sorted(rows, key=lambda row: -row["most_us"])


def best_layout(layouts, search):
    if not layouts:
        yield f"No layout fits: {number_text(search.get('evaluated'))} were evaluated."
        return
    best = layouts[0]
    parts = [(name, best.get(key)) for name, _, key, _ in TERMS if key and is_number(best.get(key)) and best[key] > 0]
    yield (f"The fastest layout is {layout_name(best)}: {time_text(best.get('step_us'))} per step, {number_text(best.get('tflops_per_gpu'))} "
           f"TFLOP/s per GPU, {bytes_text(best.get('memory_bytes'))} of {bytes_text(search.get('available_bytes'))}.")
    for other in layouts[1:2]:
        yield f"The second, {layout_name(other)}, takes {share_text(other['step_us'] / best['step_us'] - 1)} longer."
    if parts:
        name, us = max(parts, key=lambda part: part[1])
        yield f"The largest loss of the fastest layout is {name}: {time_text(us)}."


def proxies(result):
    failing = [row.get("proxy") for row in result.rows if row.get("fits") is False]
    yield f"{len(result.rows) - len(failing)} of {len(result.rows)} proxies ran" + (f"; not for this number of ranks: {names(failing, 12)}." if failing else ".")


# ---- comparisons, calibrations, studies ------------------------------------------------------------------------------


def comparison(result):
    several = compared_steps(result)
    for row in several:
        unfit = " DOES NOT FIT in memory." if row.get("fits") is False else ""
        first = several[0]["step_us"] or 1
        yield f"{row['file']}: {time_text(row['step_us'])} per step, {times_text(row['step_us'] / first)} the time of the fastest.{unfit}"
    if any(row.get("file") for row in result.rows):
        return
    data, summary = result.data, result.data.get("summary") or {}
    over = sorted((row for row in result.rows if is_over(row, data.get("threshold_percent"))), key=lambda row: -row["ratio"])
    if over:
        worst = names(f"{row_name(row)} ({times_text(row['ratio'])} the time of A)" for row in over)
        yield f"B is more than {number_text(data['threshold_percent'])} % slower in {len(over)} of {len(result.rows)} rows: {worst}."
    elif is_number(data.get("threshold_percent")):
        yield f"No row of B is more than {number_text(data['threshold_percent'])} % slower than in A."
    known = [row for row in result.rows if is_number(row.get("ratio"))]
    if known and not over:
        worst = max(known, key=lambda row: row["ratio"])
        yield f"Largest ratio: {row_name(worst)}, B takes {times_text(worst['ratio'])} the time of A."
    yield f"Verdict: {summary.get('verdict')}; geometric mean of the ratios {number_text(summary.get('geometric_mean_ratio'))}."


def calibration(result):
    for fit in result.data.get("fits") or []:
        yield (f"{fit.get('name')}: median error {number_text(fit.get('median_error_percent'), '%')}, largest "
               f"{number_text(fit.get('worst_error_percent'), '%')} over {fit.get('rows')} rows, {fit.get('outliers')} outliers.")


def study(result):
    columns, rows, counts = result.data.get("columns") or [], result.data.get("rows") or [], result.data.get("counts") or {}
    if counts.get("failed"):
        yield f"{counts['failed']} combinations failed."
    axes = [name for name in result.data.get("axes") or {} if name in columns]
    varying = [a for a in axes if len({str(row[columns.index(a)]) for row in rows}) > 1]
    for name in [c for c in columns if c not in axes][:2]:
        at = columns.index(name)
        known = sorted((row for row in rows if is_number(row[at])), key=lambda row: row[at])
        if known and known[0][at] < known[-1][at]:
            form = time_text if name.endswith("_us") else number_text
            ends = [f"{form(row[at])} ({', '.join(f'{a} {row[columns.index(a)]}' for a in varying)})" for row in (known[0], known[-1])]
            yield f"{name}: from {ends[0]} to {ends[1]}."


FINDINGS = {"collectives": collectives, "p2p": links, "comm": communicators, "overlap": overlap, "compute": compute, "proxy": step,
            "plan": step, "proxies": proxies, "compare": comparison, "calibration": calibration, "sweep": study}

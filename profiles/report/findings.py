"""The findings of a result in sentences: its failure, then what is slow, then the main values and their causes."""
import collections
import math
import string
from statistics import median_high

from charts import CONTENT_ERRORS, does_not_match
from measured import algorithm_verdicts, bandwidth_of, choice_of, limits_text, row_time
from result_files import is_plan
from steps import FAILURE_PARTS, TERMS, breakdown_of, compared_steps, layout_name, memory_of, rate_of, role_of, terms_of, wait_text, waits_of
from tables import is_over, row_name
from units import (bytes_text, duration_text, is_number, median_of, number_text, settings_text, share_text,
                   short_text, time_text)

# The first word of a result that is not "ok", by its status.
FAILURES = {"does not fit": "DOES NOT FIT", "wrong data": "WRONG DATA", "running": "INCOMPLETE"}
# What steps, and rows of collectives, have in common whose times can be compared.
STEP_WORK = ("proxy", "ranks", "parameters", "samples", "tokens")
ROW_WORK = ("dtype", "op", "root", "mode", "group")
UNFINISHED = "the run has not ended, or all its processes were killed"


def percent_text(value):
    return "less than 0.01 %" if is_number(value) and value < 0.01 else number_text(value, "%")


def times_text(ratio):
    return f"{ratio:.3g} times" if is_number(ratio) else "- times"


def names(items, most=4, separator=", "):
    items = [str(item) for item in items]
    return separator.join(items[:most]) + (f" and {len(items) - most} more" if len(items) > most else "")


FORMS = {"": str, "time": time_text, "bytes": bytes_text, "share": share_text, "percent": percent_text, "names": names,
         "number": number_text, "short": short_text, "duration": duration_text, "times": times_text, "host": lambda host: f" ({host})" if host else ""}


class Sentences(string.Formatter):
    """Templates with fields of a JSON object: "{key:form}" with a form of FORMS or a unit ("GB/s")."""

    def get_value(self, key, args, kwargs):
        return kwargs.get(key)

    def format_field(self, value, form):
        return FORMS[form](value) if form in FORMS else number_text(value, form)


def say(template, *objects, **more):
    """The template with the fields of the objects."""
    return Sentences().vformat(template, (), {key: value for one in (*objects, more) for key, value in one.items()})


def each(key, template):
    """The function that returns a sentence for each object of a list of the file."""
    return lambda result: [say(template, one) for one in result.data.get(key) or []]


def none(result):
    return ()


def of(result):
    """The sentences of a result; of a failed result only what is wrong or slow. Raises Unreadable."""
    problems, values = FINDINGS.get(result.kind, (none, none))
    usable = not result.failure or memory_of(result).get("fits") is False
    try:
        return [*failure(result), *problems(result), *(values(result) if usable else ())]
    except CONTENT_ERRORS as error:
        raise does_not_match(result, error) from error


def total(results):
    """One sentence about several results: how many, and which of them failed."""
    failed = [f"{result.name} ({result.failure})" for result in results if result.failure]
    if len(results) > 1:
        yield f"{len(failed) or 'None'} of {len(results)} results failed{f': {names(failed, 12)}' if failed else ''}."


def times_of(result):
    """{what was run: its time} of a result whose times can be compared with those of others."""
    data = result.data
    if result.failure in FAILURES:
        return {}
    try:
        times = {("step", *(data.get(key) for key in STEP_WORK)): median_of(result.of_step("step_us"))}
        if result.kind not in ("proxy", "plan"):
            times = {(row_name(row), data.get("ranks"), *(row.get(key) for key in ROW_WORK)): row_time(row)
                     for row in result.rows if result.kind == "collectives" and not row.get("forced")}
    except CONTENT_ERRORS:  # of() reports the file
        return {}
    return {work: us for work, us in times.items() if is_number(us) and us > 0}


def relative(results):
    """The results that are at least 10 % slower or faster than the first result with the same rows or step."""
    known = [(result, times_of(result)) for result in results]
    for i, (b, b_times) in enumerate(known):
        for a, a_times in known[:i]:
            ratios = {work: us / a_times[work] for work, us in b_times.items() if work in a_times}
            if ratios:
                yield from slower_of(a.name, b.name, ratios)
                break


def slower_of(a, b, ratios):
    """The slower one of two results; ratios: {what was run: time in b / time in a}."""
    mean = math.exp(math.fsum(map(math.log, ratios.values())) / len(ratios))
    if mean < 1:
        a, b, mean, ratios = b, a, 1 / mean, {work: 1 / ratio for work, ratio in ratios.items()}
    if mean > 1.1:
        worst = max(ratios, key=ratios.get)
        rows = f" in {len(ratios)} equal rows (geometric mean), {times_text(ratios[worst])} at {worst[0]}"
        yield f"{b} takes {times_text(mean)} as long as {a}{rows if len(ratios) > 1 else ''}."


def failure(result):
    if result.failure:
        default = UNFINISHED if result.failure == "running" else wrong_rows(result) or result.failure
        reason = (result.text("reason") or default).removeprefix(f"{result.failure}: ")
        yield f"{FAILURES.get(result.failure, 'FAILED')}: {reason}."


def wrong_rows(result):
    wrong = [row for row in result.rows if row.get("wrong")]
    text = "{n} of {of} rows have wrong data, the first at {bytes:bytes}"
    return say(text, wrong[0], n=len(wrong), of=len(result.rows)) if wrong else ""


def host_of(result, rank, key="host"):
    devices = [d for d in result.data.get("devices") or [] if isinstance(d, dict) and d.get("rank") == rank]
    return devices[0].get(key) if devices else None


# ---- bench -----------------------------------------------------------------------------------------------------------


def slow_groups(result):
    """With --split: groups whose bus bandwidth at the largest size is below 90 % of the median group."""
    rows = [row for row in result.rows if is_number(row.get("group")) and is_number(bandwidth_of(row)[0])]
    size, groups = max((row["bytes"] for row in rows), default=0), {}
    for row in rows:
        if row["bytes"] == size:
            groups[row["group"]] = min(bandwidth_of(row)[0], groups.get(row["group"], math.inf))
    usual = median_high(groups.values()) if groups else 0
    for group, rate in sorted(groups.items(), key=lambda item: item[1]):
        if rate < 0.9 * usual:
            yield say("Group {group}{members} is slow: {rate:GB/s} at {size:bytes}, {share:share} of the {usual:GB/s} "
                      "of the median group.", group=group, members=members(result, group), rate=rate, size=size,
                      share=rate / usual, usual=usual)


def members(result, group):
    """The hosts and ranks of a group, if the file names them."""
    known = [g for g in result.data.get("groups") or [] if isinstance(g, dict) and g.get("group") == group]
    return say(" ({hosts:names}; ranks {ranks:names})", {"hosts": [], "ranks": []}, known[0]) if known else ""


def late_ranks(result):
    """The rank that arrives last in more than half of the samples, in most of the rows with arrival skew."""
    skews = [row["skew"] for row in result.rows if isinstance(row.get("skew"), dict)]
    late = collections.Counter(skew.get("straggler") for skew in skews if is_number(skew.get("straggler")))
    for rank, n in late.most_common(1):
        if n > len(skews) / 2:
            yield say("Rank {rank}{host:host} arrives last in {n} of {of} rows.", rank=rank, n=n, of=len(skews),
                      host=host_of(result, rank))


def slow_collectives(result):
    yield from slow_groups(result)
    yield from late_ranks(result)


def collectives(result):
    by_name = collections.defaultdict(list)
    for row in result.rows:
        if not row.get("forced") and is_number(bandwidth_of(row)[0]):
            by_name[row.get("collective")].append(row)
    for name, rows in by_name.items():
        best, small = max(rows, key=lambda row: bandwidth_of(row)[0]), min(rows, key=lambda row: row.get("bytes") or 0)
        value, what = bandwidth_of(best)
        latency = say("; {bytes:bytes} takes {us:time}", small, us=row_time(small)) if small is not best else ""
        yield say("{name} {reaches} {value:GB/s} of {what} at {bytes:bytes}{in_group}{latency}.", best, name=name,
                  reaches="is predicted to reach" if is_plan(result.data) else "reaches", value=value, what=what,
                  in_group=f" in group {best['group']}" if is_number(best.get("group")) else "", latency=latency)
    yield from conditions(result)
    yield from algorithms(result)
    alone = (result.data.get("variants") or {}).get("alone") or {}
    if is_number(alone.get("gain")):
        yield say("The fastest variant is {best}: {gain:times} as fast as plain at {collective} {bytes:bytes}.", alone)


def algorithms(result):
    """With --sweep-algorithms: how often NCCL's choice is not the fastest, and the largest loss."""
    verdicts = [v for v in algorithm_verdicts(result) if v.get("nccl_choice") != "unknown"]
    not_best = [v for v in verdicts if v.get("nccl_choice") == "not_best" and is_number(v.get("lost_factor"))]
    if verdicts:
        yield f"NCCL's choice is not the fastest in {len(not_best)} of {len(verdicts)} cases."
    for worst in sorted(not_best, key=lambda v: -v["lost_factor"])[:1]:
        yield say("Largest loss: at {bytes:bytes}, {chosen} takes {lost_factor:times} as long as {best}.", worst,
                  chosen=choice_of(worst.get("chosen") or {}), best=choice_of(worst.get("best") or {}))


# Level of a cause of slow links -> its name.
LEVELS = {"node": "node {node}{host:host}", "rank": "rank {from}{host:host}", "class": "all ranks",
          "pair": "rank {from}{host:host} to rank {to}", "path": "path between node {node}{host:host} and node {other_node}",
          "one_way_path": "path from node {node}{host:host} to node {other_node}"}
SLOW_LINKS = "Slow: {what}, {slow} of {links} links {where}, {metric} {value:GB/s}%s at {bytes:bytes}."


def slow_links(result):
    """What explains the slow links, each node, rank, path and pair once."""
    causes = {}
    for cause in result.data.get("causes") or []:
        causes.setdefault((say(LEVELS.get(cause.get("level"), LEVELS["pair"]), cause), cause.get("same_node")), cause)
    for (what, _), cause in causes.items():
        template = SLOW_LINKS % (" instead of {median:GB/s}" if is_number(cause.get("median")) else "")
        template = template.replace("GB/s", "us") if cause.get("metric") == "latency" else template
        yield say(template, cause, what=what, where="within the node" if cause.get("same_node") else "between nodes")
    slow = sum(link.get("level") == "pair" for link in result.data.get("slow_links") or [])
    if result.rows and not causes and (slow or not result.failure):
        yield f"{slow or 'No'} link{'s are' if slow > 1 else ' is'} slow by the criterion of --slow."


def communicators(result):
    ranks = max((row.get("ranks") or 0 for row in result.rows), default=0)
    rows = [row for row in result.rows if row.get("ranks") == ranks and is_number(row_time(row))]
    for row in sorted(rows, key=lambda row: -row_time(row))[:1]:
        yield say("The longest step of a communicator's life on {ranks} ranks is {step}: {us:time}, on rank "
                  "{slowest_rank}{host:host}.", row, us=row_time(row), host=host_of(result, row.get("slowest_rank")))


def overlap(result):
    for best in result.data.get("best") or []:
        keys = ("bytes", "min_ctas", "max_ctas")
        row = next((r for r in result.rows if all(r.get(key) == best.get(key) for key in keys)), {})
        if sum(r.get("bytes") == best.get("bytes") for r in result.rows) < 2:
            continue  # one limit was measured
        others = [tied for tied in best.get("tied") or [] if tied != limits_text(best)]
        yield say("{collective} of {bytes:bytes} concurrent with GEMMs is fastest with CTAs {ctas}{no_slower}: overlap "
                  "efficiency {overlap_efficiency:number}, GEMMs take {compute_slowdown:times} as long as alone.", row,
                  best, ctas=limits_text(best), no_slower=f" (no slower: {names(others)})" if others else "")


SLOW_GPU = ("Slow: GPU {gpu}{pci:host} of {host} (rank {rank}), in {results} of {of} results, up to {worst_slowdown:times} the "
            "typical time.")


def slow_gpus(result):
    return [say(SLOW_GPU, one, pci=host_of(result, one.get("rank"), "pci")) for one in result.data.get("slow_gpus") or []]


def compute(result):
    limits = result.data.get("limits") or {}
    rates = [f"{dtype} {number_text(rate)}" for dtype, rate in (limits.get("tflops") or {}).items() if is_number(rate)]
    if rates:
        yield f"Best rate of GEMMs in TFLOP/s: {names(rates, 6)}."
    if is_number(limits.get("copy_gbps")):
        yield say("Copies reach {copy_gbps:GB/s}.", limits)


# ---- steps -----------------------------------------------------------------------------------------------------------


def invalid_step(result):
    checks = result.data.get("checks") or {}
    if checks.get("matched") and checks.get("deadlock_free"):
        return  # faults are then those of a serialised execution, which busbar proxy avoids
    for fault in (checks.get("faults") or [])[:3]:
        yield f"The step is invalid: {fault}."


def step(result):
    """Step time, exposed communication, late ranks, training time and best order."""
    if "best_layout" in result.data:
        yield from best_layout(result.data["best_layout"])
        return
    predicted, us = result.data.get("predicted") or {}, median_of(result.of_step("step_us"))
    if is_number(us):
        fits = memory_of(result).get("fits") is not False
        yield say("A step {takes} {us:time} on {ranks} ranks{condition}{rates}.", result.data, us=us,
                  takes="takes" if fits else "would take", condition="" if fits else ", if training fitted",
                  rates=rates_text(result.data, predicted))
    yield from training(predicted.get("training"))
    compute = predicted.get("compute") or {}
    if compute.get("software"):
        added = f"; added so that training fits: {compute['added']}" if compute.get("added") else ""
        yield f"Compute is predicted with the rates of the training software {compute['software']}{added}."
    yield from exposed(result)
    yield from late_parts(result, us)
    yield from jitter(predicted)
    yield from best_order((result.data.get("best_order") or {}).get("orders") or [])


def best_order(orders):
    """The order of axes with the fewest bytes between nodes: that of the plan, if no other has fewer."""
    fewest = [order for order in orders if order["inter_node_bytes"] == orders[0]["inter_node_bytes"]]
    for order in sorted(fewest, key=lambda order: not order.get("requested"))[:1]:
        yield say("The order {order}{own} sends the fewest bytes between nodes: {inter_node_bytes:bytes} per step{ties}.", order,
                  own=", that of the plan," if order.get("requested") else "",
                  ties=f"; others with as many: {len(fewest) - 1}" if len(fewest) > 1 else "")


def training(duration):
    """The duration of training, and with --mtbf-node the best checkpoint interval and what failures cost."""
    if not duration:
        return
    failing = duration.get("with_failures")
    what = "{epochs:short} epochs of {samples:short} samples" if "epochs" in duration else "{tokens:short} tokens"
    yield say(what + " take {days:short} days and {gpu_hours:short} GPU hours without failures.", duration)
    if failing:
        lost = [f"{name} {100 * failing[key]:.2g} %" for name, key, _ in FAILURE_PARTS if is_number(failing.get(key))]
        yield say("With a failure every {mtbf_s:duration} and the best checkpoint interval, {interval_s:duration}, training "
                  "takes {days:short} days and {gpu_hours:short} GPU hours: goodput {goodput:share}, {lost:names}.", failing,
                  lost=lost)


def rates_text(*objects):
    """Rate and utilisation, from the first of the objects that has them."""
    known = {key: value for one in reversed(objects) for key, value in one.items() if is_number(value)}
    what, rate = rate_of(objects[0]) or ("steps", None)
    parts = [number_text(rate, f"{what}/s")] if what != "steps" else []
    parts += [say("{tflops_per_gpu:TFLOP/s per GPU}", known)] if "tflops_per_gpu" in known else []
    if "model_flop_utilisation" in known:
        mfu = known["model_flop_utilisation"]
        peak = number_text(known["tflops_per_gpu"] / mfu, "TFLOP/s") if mfu > 0 and "tflops_per_gpu" in known else ""
        causal = "model_flop_utilisation_causal" in known
        parts.append(say("MFU {model_flop_utilisation:share}{peak}{full}", known, peak=f" of {peak}" if peak else "",
                         full=" with attention in full (Megatron-LM paper)" if causal else ""))
        parts += [say("{model_flop_utilisation_causal:share} with causal attention (newer Megatron-LM)", known)] if causal else []
    return f": {', '.join(parts)}" if parts else ""


def exposed(result):
    b = breakdown_of(result)
    if not b or not is_number(b.get("exposed_us")) or not b.get("step_us"):
        return
    text = f"{share_text(b['exposed_us'] / b['step_us'])} of the step is exposed communication"
    cause = largest((name, us) for name, us, _ in terms_of(result)[1] if name not in ("slower kernels", "idle"))
    group = largest((group.get("name"), group.get("exposed_us")) for group in result.of_step("groups") or [])
    if cause and cause[0] != "exposed communication":
        text += part_text(", mostly {}", ", the largest part {}", cause, b["exposed_us"])
    text += part_text("; most of it in group {}", "; the largest part in group {}", group, b["exposed_us"]) if group else ""
    role, host = role_of(result), host_of(result, b.get("rank"))
    yield f"{text}. The slowest rank is {b.get('rank')}{FORMS['host'](host)}{f', {role}' if role else ''}."


def part_text(most, largest_part, pair, whole_us):
    """The (name, us) in the first text if it is at least half of the whole, else in the second, with its share."""
    name, us = pair
    if us >= whole_us / 2:
        return f"{most.format(name)} ({time_text(us)})"
    return f"{largest_part.format(name)} ({time_text(us)}, {share_text(us / whole_us)} of it)"


def largest(pairs):
    """The (name, value) with the largest positive value; None if there is none."""
    return max((pair for pair in pairs if is_number(pair[1]) and pair[1] > 0), key=lambda pair: pair[1], default=None)


def jitter(predicted):
    """The step time with --jitter, as the line `jitter` of the text."""
    varied = predicted.get("jitter") or {}
    times = varied.get("step_us") or {}
    if is_number(times.get("p50")):
        others = [f"{name} {100 * (times[name] / times['p50'] - 1):+.2f} %" for name in ("p5", "p95", "max") if is_number(times.get(name))]
        yield say("With {deviation:share} jitter of kernel times ({samples} samples, seed {seed}) the median of the step time is {p50:time}{others}. {what} "
                  "without jitter.", varied, times, others=f"; {', '.join(others)} of it" if others else "",
                  what="Training takes this median, the other values are" if predicted.get("training") else "The other values are")


def conditions(result):
    """The conditions of predicted collectives: --slow and --jitter."""
    predicted = result.data.get("predicted") or {}
    if predicted.get("slow"):
        yield say("Predicted with slow parts (--slow): {slow:names}.", predicted)
    if predicted.get("jitter"):
        yield say("Times are medians of {samples} samples in which the time that each rank contributes varies by {deviation:share} (--jitter, seed {seed}).",
                  predicted["jitter"])


def late_parts(result, step_us):
    predicted, late = result.data.get("predicted") or {}, result.of_step("late_rank")
    if predicted.get("slow"):
        yield say("Predicted with slow or late parts (--slow, --delay): {slow:names}. They cost {slow_cost_us:time} of "
                  "the step.", predicted)
    if (result.data.get("options") or {}).get("moe_imbalance"):
        yield say("The experts have unequal load (--moe-imbalance {moe_imbalance}).", result.data["options"])
    if is_number(late):
        yield say("The other ranks wait for rank {late} on node {node}{host:host}.", late=late,
                  node=result.of_step("late_node"), host=host_of(result, late))
    # Waiting in a group that spans stages is mostly the bubble.
    waits = waits_of(result, 0.02 * step_us) if is_number(step_us) else []
    waits = [row for row in waits if "pp" not in str(row.get("group")).split("_")]
    for row in waits[:1]:
        yield say("{waits}{host:host}.", waits=wait_text(row), host=host_of(result, row.get("waited_for")))


def best_layout(search):
    layouts = search.get("layouts") or []
    if not layouts:
        yield say("No layout fits: {evaluated:number} were considered.", search)
        return
    best = layouts[0]
    p50 = say(" (with jitter {p50_step_us:time}, the median)", best) if is_number(best.get("p50_step_us")) else ""
    yield say("The best layout is {name}: {step_us:time} per step{p50}, {memory_bytes:bytes} of {available_bytes:bytes}"
              "{rates}.", search, best, name=layout_name(best), rates=rates_text(best), p50=p50)
    for other in layouts[1:2]:
        longer = other["step_us"] / best["step_us"] - 1  # the order is that of step + penalty
        yield (f"The second, {layout_name(other)}, takes {share_text(abs(longer))} {'longer' if longer >= 0 else 'less'}"
               f"{', but has a larger penalty' if longer < 0 else ''}.")
    loss = largest([("waiting for launches by the host", best.get("launch_wait_us")), *((name, best.get(key)) for name, _, key, _ in TERMS if key)])
    if loss:
        yield f"The largest loss of the best layout is {loss[0]}: {time_text(loss[1])}."


def proxies(result):
    failing = [row.get("proxy") for row in result.rows if row.get("fits") is False]
    not_run = f"; not for this number of ranks: {names(failing, 12)}" if failing else ""
    yield f"{len(result.rows) - len(failing)} of {len(result.rows)} proxies ran{not_run}."


# ---- comparisons, calibrations, studies ------------------------------------------------------------------------------


# Verdicts about files whose times cannot be compared.
NOT_COMPARABLE = ("run incomplete", "different model", "does not fit", "no common row", "wrong data")


def comparison(result):
    if any(row.get("file") for row in result.rows):
        yield from several_files(result)
        return
    percent, summary = result.data.get("threshold_percent"), result.data.get("summary") or {}
    if summary.get("verdict") in NOT_COMPARABLE:
        yield say("Verdict: {verdict}.", summary)
        return
    yield say("Verdict: {verdict}; on average B takes {geometric_mean_ratio:times} the time of A (geometric mean).",
              summary)
    rows = sorted((row for row in result.rows if is_number(row.get("ratio"))), key=lambda row: -row["ratio"])
    over = [f"{row_name(row)} ({times_text(row['ratio'])} the time of A)" for row in rows if is_over(row, percent)]
    if over:
        yield f"B is slower in: {names(over)}."
    elif is_number(percent) and not result.failure:
        yield f"No row of B is more than {percent_text(percent)} slower than in A."
    for row in rows[:0 if over else 1]:
        yield say("Largest ratio: {name}, B takes {ratio:times} the time of A.", row, name=row_name(row))


def several_files(result):
    """Each file of `compare A B C...` against the first file."""
    first = result.rows[0]
    for row in compared_steps(result) or result.rows:
        parts = [say("{step_us:time} per step", row)] if "step_us" in row else []
        parts += ["the others are compared with this file"] if row is first else [against(row, first)]
        unfit = " DOES NOT FIT in memory." if row.get("fits") is False else ""
        yield f"{row.get('file')}: {'; '.join(parts)}.{unfit}"


def against(row, first):
    """The row of a file compared with the first: steps of different work by the GPU seconds for equal work."""
    if not is_number(row.get("ratio")):
        return row.get("verdict") or "not compared"
    if "step_us" not in row:
        return say("{faster} rows faster and {slower} slower of {rows}, on average {ratio:times} the time of {first} "
                   "(geometric mean)", row, first=first.get("file"))
    if math.isclose(row["ratio"], row["step_us"] / first["step_us"], rel_tol=1e-3):
        return say("{ratio:times} the step time of {first}", row, first=first.get("file"))
    return say("{ratio:times} the GPU seconds of {first} for equal work", row, first=first.get("file"))


FIT = ("{name}: median error {median_error_percent:percent}, largest {worst_error_percent:percent} over {rows} rows, "
       "outliers: {outliers}.")


def study(result):
    yield from failed_combinations(result)
    columns, rows = result.data.get("columns") or [], result.data.get("rows") or []
    axes = [name for name in result.data.get("axes") or {} if name in columns]
    varying = [a for a in axes if len({str(row[columns.index(a)]) for row in rows}) > 1]
    choices = [a for a in varying if a != "bytes"]
    if choices and {"bytes", "time_us"} <= set(columns):
        yield from fastest_by_size(rows, columns, choices)
        return
    for name in [c for c in columns if c not in axes and not c.startswith("options.")][:2]:
        at, form = columns.index(name), time_text if name.endswith("_us") else number_text
        known = sorted((row for row in rows if is_number(row[at])), key=lambda row: row[at])
        if known and known[0][at] < known[-1][at]:
            settings = [settings_text({a: row[columns.index(a)] for a in varying}) for row in (known[0], known[-1])]
            yield f"{name}: from {form(known[0][at])} ({settings[0]}) to {form(known[-1][at])} ({settings[1]})."


def fastest_by_size(rows, columns, varying):
    """The combination with the shortest time at each size; adjacent sizes with the same combination are one range."""
    size, time = columns.index("bytes"), columns.index("time_us")
    best = {}
    for row in rows:
        if is_number(row[time]) and is_number(row[size]) and (row[size] not in best or row[time] < best[row[size]][time]):
            best[row[size]] = row
    ranges = []
    for at in sorted(best):
        settings = settings_text({a: best[at][columns.index(a)] for a in varying})
        if ranges and ranges[-1][2] == settings:
            ranges[-1][1] = at
        else:
            ranges.append([at, at, settings])
    parts = [f"{bytes_text(low)}{f' to {bytes_text(high)}' if high > low else ''} {settings}" for low, high, settings in ranges]
    if parts:
        yield f"shortest time: {'; '.join(parts[:6])}{'; ...' if len(parts) > 6 else ''}."


def failed_combinations(result):
    """The combinations that failed, by the first line of their error."""
    errors = collections.defaultdict(list)
    for one in result.data.get("combinations") or []:
        if one.get("state") in ("failed", "below threshold"):
            error = next(iter(one.get("stderr") or ()), one["state"]).removeprefix("busbar: ")
            errors[error].append(settings_text(one.get("settings") or {}))
    for error, settings in list(errors.items())[:4]:
        yield f"Failed: {names(settings, separator='; ')}: {error}."


# ---- health ----------------------------------------------------------------------------------------------------------


def slow_parts(result):
    found = result.data.get("findings") or []
    for one in found[:12]:
        yield f"{one.get('level')}, stage {one.get('stage')}: {one.get('name')}: {one.get('reason')}."
    if len(found) > 12:
        yield f"{len(found) - 12} further findings are in the table of nodes."


def node_levels(result):
    levels = collections.Counter(v.get("level") for v in result.data.get("verdicts") or [])
    by = result.text("expected_by")
    n = sum(levels.values())
    yield (f"{n} node{'s' if n != 1 else ''}: {levels['ok']} ok, {levels['warn']} warn, {levels['fail']} fail, {levels['unknown']} unknown; "
           f"{f'expected by {by}' if by else 'compared with each other'}.")


# Kind of a result -> (what is wrong or slow, the main values); only a result that did not fail has the second.
FINDINGS = {
    "collectives": (slow_collectives, collectives),
    "p2p": (slow_links, none),
    "comm": (none, communicators),
    "overlap": (none, overlap),
    "compute": (slow_gpus, compute),
    "proxy": (invalid_step, step),
    "plan": (invalid_step, step),
    "health": (lambda result: [*node_levels(result), *slow_parts(result)], none),
    "proxies": (none, proxies),
    "compare": (comparison, none),
    "calibration": (none, each("fits", FIT)),
    "sweep": (study, none)}

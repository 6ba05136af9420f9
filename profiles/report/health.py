"""Charts of `busbar health`: the nodes, worst first, and the matrix of pairs of nodes."""
from chart import RATIOS, Chart, axis
from units import is_number, number_text, share_text

LEVELS = ("fail", "warn", "unknown", "ok")
PARTS_OF_NODE = ("gpu", "node", "nic")


def expectations(result):
    """{test: (expected value, or the median of the values; unit)}"""
    tests = [test for test in result.data.get("tests") or [] if is_number(test.get("expected") or test.get("median"))]
    return {test["test"]: (test.get("expected") or test["median"], test.get("unit")) for test in tests}


def domain_expectation(result, test):
    """The expected value, or the median, of pairs of nodes in one of several NVLink domains; None: there are none."""
    values = [row.get("domain_expected") or row.get("domain_median") for row in result.data.get("tests") or [] if row["test"] == test]
    return values[0] if values else None


def domains_of_nodes(result):
    """{node: its NVLink domain; the node, if domains are unknown or there is only one}"""
    return {verdict["node"]: verdict["node"] if verdict.get("domain") is None else verdict["domain"]
            for verdict in result.data.get("verdicts") or []}


def hosts_of_nodes(result):
    return {verdict["node"]: verdict.get("host") or str(verdict["node"]) for verdict in result.data.get("verdicts") or []}


def shares(result, tests):
    """{(node, test): lowest of the GPUs' best values / expectation}"""
    best, lowest, domains = {}, {}, domains_of_nodes(result)
    for row in result.rows:
        if is_number(row.get("partner")) and domains.get(row["node"], row["node"]) == domains.get(row["partner"], row["partner"]):
            continue  # NVLink connects this pair, and the expectation is that of NICs
        key = row["node"], row["test"], row["gpu"]
        best[key] = max(best.get(key, 0), row["value"])
    for (node, test, _), value in best.items():
        expected = tests.get(test, (None, None))[0]
        if expected:
            lowest[node, test] = min(lowest.get((node, test), value / expected), value / expected)
    return lowest


def nodes(results):
    """A table of the nodes, worst first: verdict, reason, and the share of the expectation that the slowest GPU reaches."""
    for result in results:
        verdicts, tests = result.data.get("verdicts") or [], expectations(result)
        share = shares(result, tests)
        reasons = {verdict["node"]: [f"{finding.get('name')}: {finding.get('reason')}" for finding in result.data.get("findings") or []
                                     if finding.get("part") in PARTS_OF_NODE and finding.get("node") == verdict["node"]]
                   for verdict in verdicts}

        def row_of(verdict):
            node, level = verdict["node"], verdict.get("level")
            reached = [share.get((node, test)) for test in tests]
            worst = min((value for value in reached if is_number(value)), default=1)
            return (LEVELS.index(level) if level in LEVELS else 0, worst), [
                verdict.get("host"), level, "; ".join(reasons[node]) or "-",
                *(share_text(value) if is_number(value) else "-" for value in reached)]
        rows = [row for _, row in sorted(map(row_of, verdicts), key=lambda pair: pair[0])]
        if rows:
            yield Chart(f"Nodes ({result.name})", [result], columns=("node", "verdict", "reason", *tests), rows=rows,
                        about="Worst first. The share of the expectation, or of the median in tests without one, that the slowest GPU "
                        "of the node reaches in each test; between nodes, with its best partner.")


def pairs(results):
    """A heat map of the pairs of nodes: the slowest GPU of each pair, in the last measurement."""
    for result in results:
        rows = [row for row in result.rows if row.get("stage") == "pairs" and is_number(row.get("partner"))]
        hosts, values = hosts_of_nodes(result), {}
        for row in rows:  # the GPUs of a measurement are in order, from 0
            key = row["node"], row["partner"]
            values[key] = row["value"] if row["gpu"] == 0 or key not in values else min(values[key], row["value"])
        if not rows or not hosts:
            continue
        expected, unit = expectations(result)[rows[0]["test"]]
        known = any(test["test"] == rows[0]["test"] and is_number(test.get("expected")) for test in result.data["tests"])
        of = f"{'expected' if known else 'median'} {number_text(expected, unit)}"
        n = 1 + max(hosts)
        inside, domains = domain_expectation(result, rows[0]["test"]), domains_of_nodes(result)

        def reference(a, b):
            return inside if is_number(inside) and domains.get(a, a) == domains.get(b, b) else expected

        if is_number(inside):
            of += f" ({number_text(inside, unit)} in an NVLink domain)"

        def text(a, b):
            if a == b or (a, b) not in values:
                return f"{hosts.get(a)}: itself" if a == b else f"{hosts.get(a)} and {hosts.get(b)}: not measured"
            return (f"{hosts.get(a)} and {hosts.get(b)}<br>{number_text(values[a, b], unit)}<br>"
                    f"{share_text(values[a, b] / reference(a, b))} of the {of}")
        slow = sorted((value / reference(*key), value, key) for key, value in values.items()
                      if key[0] < key[1] and value < 0.93 * reference(*key))
        shown = sorted(hosts)[::-(-n // 16)]
        ends = {"constrain": "domain", "tickmode": "array", "tickvals": shown, "ticktext": [hosts[node] for node in shown]}
        trace = {"type": "heatmap", "x": list(range(n)), "y": list(range(n)),
                 "z": [[values[a, b] / reference(a, b) if (a, b) in values else None for b in range(n)] for a in range(n)],
                 "hovertext": [[text(a, b) for b in range(n)] for a in range(n)], "hoverinfo": "text", "colorscale": RATIOS,
                 "zmin": 0.5, "zmax": 1.5, "xgap": 1, "ygap": 1,
                 "colorbar": {"outlinewidth": 0, "thickness": 12, "orientation": "h", "y": 0, "yref": "container", "yanchor": "bottom"}}
        yield Chart(
            f"Pairs of nodes ({result.name})", [result], traces=[trace], showlegend=False,
            about=f"Color: share of the {of} that the slowest GPU of each pair reaches; blank: not "
            f"measured. {len(slow) or 'No'} {'pair is' if len(slow) == 1 else 'pairs are'} below 93 %.",
            height=max(420, min(860, 230 + 24 * n)), xaxis=axis("node", **ends),
            yaxis=axis("node", autorange="reversed", scaleanchor="x", **ends),
            columns=("node", "other node", f"value ({unit})", f"of the {of}"),
            rows=[[hosts.get(a), hosts.get(b), value, share_text(share)] for share, value, (a, b) in slow])

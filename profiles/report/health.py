"""Charts of `busbar health`: the nodes, worst first, and the matrix of pairs of nodes."""
from chart import RATIOS, Chart, axis
from units import is_number, number_text, share_text

LEVELS = ("fail", "warn", "unknown", "ok")
PARTS_OF_NODE = ("gpu", "node", "nic")


def expectations(result):
    """{test: (expected value, or the median of the values; unit)}"""
    tests = [test for test in result.data.get("tests") or [] if is_number(test.get("expected") or test.get("median"))]
    return {test["test"]: (test.get("expected") or test["median"], test.get("unit")) for test in tests}


def domains_of_nodes(result):
    """{node: its NVLink domain; the node, if domains are unknown or there is only one}"""
    return {verdict["node"]: verdict["node"] if verdict.get("domain") is None else verdict["domain"]
            for verdict in result.data.get("verdicts") or []}


def is_inside(row, domains):
    """Whether NVLink connects the pair of nodes of a row."""
    return is_number(row.get("partner")) and domains.get(row["node"], row["node"]) == domains.get(row["partner"], row["partner"])


def expectation_of_row(result):
    """A function that returns the expected value of a row, or the median of its test, or of the pairs in NVLink domains."""
    tests, domains = expectations(result), domains_of_nodes(result)
    inside = {test["test"]: test.get("domain_expected") or test.get("domain_median") for test in result.data.get("tests") or []}

    def of(row):
        if is_number(row.get("expected")):
            return row["expected"]
        return is_inside(row, domains) and inside.get(row["test"]) or tests.get(row["test"], (None, None))[0]
    return of


def hosts_of_nodes(result):
    return {verdict["node"]: verdict.get("host") or str(verdict["node"]) for verdict in result.data.get("verdicts") or []}


def shares(result):
    """{(node, test): lowest of the GPUs' best values / expectation}. Loaded uplinks hide a slow NIC: the values with the highest
    expectation count."""
    best, lowest, domains, expected_of = {}, {}, domains_of_nodes(result), expectation_of_row(result)
    for row in result.rows:
        expected = expected_of(row)
        if expected and not is_inside(row, domains):  # NVLink does not show what the NICs reach
            key = row["node"], row["test"], row["gpu"]
            best[key] = max(best.get(key, (0, 0)), (expected, row["value"] / expected))
    for (node, test, _), (_, share) in best.items():
        lowest[node, test] = min(lowest.get((node, test), share), share)
    return lowest


def nodes(results):
    """A table of the nodes, worst first: verdict, reason, and the share of the expectation that the slowest GPU reaches."""
    for result in results:
        verdicts, tests = result.data.get("verdicts") or [], expectations(result)
        share = shares(result)
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
                        "of the node reaches in each test; between nodes, with its best partner among those with the least load on shared uplinks.")


def range_text(values, unit):
    lowest, highest = number_text(min(values)), number_text(max(values), unit)
    return highest if lowest == highest.split()[0] else f"{lowest} to {highest} (by the load of the uplinks)"


def pairs(results):
    """A heat map of the pairs of nodes: the slowest GPU of each pair, in the last measurement."""
    for result in results:
        rows = [row for row in result.rows if row.get("stage") == "pairs" and is_number(row.get("partner"))]
        hosts, domains, expected_of, pair = hosts_of_nodes(result), domains_of_nodes(result), expectation_of_row(result), {}
        for row in rows:  # the GPUs of a measurement are in order, from 0
            key = row["node"], row["partner"]
            pair[key] = row if row["gpu"] == 0 or key not in pair or row["value"] < pair[key]["value"] else pair[key]
        if not rows or not hosts:
            continue
        value = {key: row["value"] for key, row in pair.items()}
        expected = {key: expected_of(row) for key, row in pair.items()}
        share = {key: value[key] / expected[key] for key in pair}
        unit = rows[0]["unit"]
        word = "expected" if any(test["test"] == rows[0]["test"] and is_number(test.get("expected")) for test in result.data["tests"]) else "median"
        inside = [expected[key] for key, row in pair.items() if is_inside(row, domains)]
        between = [expected[key] for key, row in pair.items() if not is_inside(row, domains)]
        of = f"{word} {range_text(between or inside, unit)}"
        n = 1 + max(hosts)
        if between and inside:
            of += f" ({range_text(inside, unit)} in an NVLink domain)"

        def text(a, b):
            if a == b or (a, b) not in pair:
                return f"{hosts.get(a)}: itself" if a == b else f"{hosts.get(a)} and {hosts.get(b)}: not measured"
            return (f"{hosts.get(a)} and {hosts.get(b)}<br>{number_text(value[a, b], unit)}<br>"
                    f"{share_text(share[a, b])} of the {word} {number_text(expected[a, b], unit)}")
        slow = sorted((share[key], key) for key in pair if key[0] < key[1] and share[key] < 0.93)
        shown = sorted(hosts)[::-(-n // 16)]
        ends = {"constrain": "domain", "tickmode": "array", "tickvals": shown, "ticktext": [hosts[node] for node in shown]}
        trace = {"type": "heatmap", "x": list(range(n)), "y": list(range(n)),
                 "z": [[share.get((a, b)) for b in range(n)] for a in range(n)],
                 "hovertext": [[text(a, b) for b in range(n)] for a in range(n)], "hoverinfo": "text", "colorscale": RATIOS,
                 "zmin": 0.5, "zmax": 1.5, "xgap": 1, "ygap": 1,
                 "colorbar": {"outlinewidth": 0, "thickness": 12, "orientation": "h", "y": 0, "yref": "container", "yanchor": "bottom"}}
        yield Chart(
            f"Pairs of nodes ({result.name})", [result], traces=[trace], showlegend=False,
            about=f"Color: share of the {of} that the slowest GPU of each pair reaches; blank: not "
            f"measured. {len(slow) or 'No'} {'pair is' if len(slow) == 1 else 'pairs are'} below 93 %.",
            height=max(420, min(860, 230 + 24 * n)), xaxis=axis("node", **ends),
            yaxis=axis("node", autorange="reversed", scaleanchor="x", **ends),
            columns=("node", "other node", f"value ({unit})", f"{word} ({unit})", "share"),
            rows=[[hosts.get(a), hosts.get(b), value[a, b], expected[a, b], share_text(part)] for part, (a, b) in slow])

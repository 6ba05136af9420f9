"""The page: one HTML file that contains its style sheet, scripts and charts.

The page makes no network request: its Content-Security-Policy forbids them all."""
import functools
import html
import importlib.util
import json
import pathlib

import findings

HERE = pathlib.Path(__file__).resolve().parent
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
PLOTLY_SCRIPT = "package_data/plotly.min.js"


class Missing(Exception):
    """The message names the component that is not installed."""


def find_plotly():
    """The text of plotly.js from the Python package plotly. The package is not imported: only this file is needed."""
    spec = importlib.util.find_spec("plotly")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        script = pathlib.Path(folder) / PLOTLY_SCRIPT
        if script.is_file():
            return script.read_text(encoding="utf-8")
    raise Missing("needs the Python package plotly")


@functools.cache
def source(name):
    """The text of a file of this folder."""
    return (HERE / name).read_text(encoding="utf-8")


def as_json(value):
    """JSON for a <script> element: "<" and line separators are escaped, so that no text can close the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def without_nan(value):
    """Replace NaN and infinities, which JSON does not have, by null; plotly.js draws null as a gap."""
    if isinstance(value, float) and value in (float("inf"), float("-inf")) or value != value:
        return None
    if isinstance(value, dict):
        return {key: without_nan(v) for key, v in value.items()}
    return [without_nan(v) for v in value] if isinstance(value, (list, tuple)) else value


def text(value):
    return html.escape(str(value), quote=True)


def stamp_marks(stamps, problems=()):
    return "".join(f'<span class="stamp{" problem" if stamp in problems else ""}">{text(stamp)}</span>'
                   for stamp in stamps)


def command_of(result):
    args = result.data.get("command")
    return " ".join(map(str, args)) if isinstance(args, list) else result.text("summary")


def count_text(n, noun):
    return f"{n} {noun}{'' if n == 1 else 's'}" if n else ""


def machine_of(result):
    """Ranks, nodes, GPUs and NCCL version, as far as the file records them."""
    data, nccl = result.data, (result.data.get("nccl") or {}).get("runtime")
    names = sorted({str(d.get("name")) for d in data.get("devices") or [] if isinstance(d, dict)})
    if result.kind == "compare":  # compare starts no ranks
        return ""
    parts = [count_text(data.get("ranks"), "rank"), count_text(data.get("nodes"), "node"), *names]
    return ", ".join([part for part in parts if part] + ([f"NCCL {nccl}"] if nccl else []))


def files_table(results):
    rows = "".join(
        f"<tr><th scope='row'>{text(r.name)}</th><td>{text(r.type)}</td><td><code>{text(command_of(r))}</code></td>"
        f"<td>{text(machine_of(r))}</td><td>{text(r.text('started'))}</td><td>{text(r.text('status') or '-')}</td></tr>"
        for r in results)
    heads = "".join(f"<th scope='col'>{h}</th>" for h in ("file", "type", "command", "machine", "started", "status"))
    return (f'<section id="files" aria-labelledby="files-title"><h2 id="files-title">Files</h2>'
            f'<div class="card scroll" role="region" aria-labelledby="files-title" tabindex="0">'
            f'<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div></section>')


def findings_html(results):
    """The findings of each result, failed results first. Stamps that all files have are printed once."""
    def stamps_of(result):  # the findings contain the status
        return [stamp for stamp in result.stamps if not stamp.startswith("status")]
    common = [stamp for stamp in stamps_of(results[0]) if all(stamp in r.stamps for r in results)]
    parts = [stamp_marks(common)]
    parts += [f"<p><strong>{text(sentence)}</strong></p>" for sentence in (*findings.total(results), *findings.relative(results))]
    for r in sorted(results, key=lambda r: not r.failure):
        sentences = "".join(f"<li>{text(sentence)}</li>" for sentence in findings.of(r))
        stamps = stamp_marks((stamp for stamp in stamps_of(r) if stamp not in common), r.problems)
        if sentences or stamps:
            parts.append(f"<h3>{text(r.name)} <small>{text(r.type)}</small></h3>{stamps}<ul>{sentences}</ul>")
    return (f'<section id="findings" aria-labelledby="findings-title"><h2 id="findings-title">Findings</h2>'
            f'<div class="card">{"".join(parts)}</div></section>')


def figure_element(i, chart):
    """The frame of a chart. page.js draws the plot when it scrolls into view and fills the table when it is opened."""
    name, parts = f"chart-{i}", []
    if chart.about:
        parts.append(f'<p id="{name}-about">{text(chart.about)}</p>')
    parts += [f'<p class="note">{text(note)}</p>' for note in chart.notes]
    if chart.traces or chart.chooser:
        parts.append(f'<div class="chooser" data-chart="{i}"></div>' if chart.chooser else "")
        parts.append(f'<div class="plot" data-chart="{i}" tabindex="0" role="group" aria-roledescription="chart" '
                     f'aria-label="{text(chart.title)}. Use the arrow keys to step through the values." '
                     f'style="min-height:{chart.height}px"></div>')
    if chart.rows:
        opened = " open" if chart.chooser or not chart.traces else ""
        parts.append(f'<details class="values" data-chart="{i}"{opened}><summary>Values of {text(chart.title)} '
                     f'({len(chart.rows)} rows)</summary></details>')
    stamps = "" if chart.traces or chart.chooser else stamp_marks(chart.stamps)
    caption = f'<figcaption><h3 id="{name}-title">{text(chart.title)}</h3>{stamps}</figcaption>'
    return f'<figure id="{name}" aria-labelledby="{name}-title">{caption}{"".join(parts)}</figure>'


def sections_html(sections):
    parts, i = [], 0
    for heading, charts in sections:
        anchor = heading.lower().replace(" ", "-")
        parts.append(f'<section id="{anchor}" aria-labelledby="{anchor}-title">'
                     f'<h2 id="{anchor}-title">{text(heading)}</h2>')
        for chart in charts:
            parts.append(figure_element(i, chart))
            i += 1
        parts.append("</section>")
    return "".join(parts)


def charts_json(sections):
    return as_json(without_nan([
        {"title": p.title, "figure": p.figure(), "columns": p.columns, "rows": p.rows, "chooser": p.chooser}
        for _, charts in sections for p in charts]))


def make_page(results, sections, title):
    headings = ["Findings", *(heading for heading, _ in sections), "Files"]
    links = "".join(f'<a href="#{h.lower().replace(" ", "-")}">{text(h)}</a>' for h in headings)
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,"><title>{text(title)}</title>
<style>{source("page.css")}</style></head>
<body><header><h1>{text(title)}</h1><nav aria-label="Sections">{links}</nav></header>
<main>{findings_html(results)}{sections_html(sections)}{files_table(results)}</main>
<noscript><p class="note">The charts require JavaScript.</p></noscript>
<p id="announcement" class="announcement" role="status" aria-live="polite"></p>
<script type="application/json" id="charts">{charts_json(sections)}</script>
<script>{find_plotly()}</script>
<script>{source("page.js")}</script></body></html>
"""

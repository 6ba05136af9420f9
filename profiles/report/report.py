#!/usr/bin/env python3
"""One self-contained page of charts from result files of busbar: report.py RESULT.json... -o report.html

`busbar report` runs this script. charts.py lists the charts. Exit status: 0; 1 if the page cannot be written or plotly
is missing; 2 if an input is not a result file."""
import argparse
import os
import re
import sys
import tempfile

import page
import charts
import result_files

INVALID_INPUT, FAILURE = 2, 1


def print_error(text, status):
    # Control characters of files must not reach the terminal.
    print("busbar: report:", "".join(c if c.isprintable() else " " for c in str(text)), file=sys.stderr)
    return status


def read_all(paths):
    results = [result_files.read(path) for path in dict.fromkeys(paths)]
    result_files.make_names_unique(results)
    return results


def write_atomically(path, text):
    """Write to a temporary file in the same folder and rename it, so that the page is either new or unchanged.

    The mode of the page is 0600, because it contains commands and devices of results whose mode is 0600."""
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device cannot be renamed over
        handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)  # O_NONBLOCK: a FIFO without a reader is an error
        os.set_blocking(handle, True)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        return
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=".html", dir=os.path.dirname(path) or ".")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def print_page(path):
    """Print the name of the page, unless it is a pipe or a device."""
    try:
        if os.path.isfile(path):
            os.write(1, b"# page: " + re.sub(rb"[\0-\x1f\x7f]", b" ", os.fsencode(path)) + b"\n")
    except OSError as error:
        return print_error(f"cannot write to stdout: {error.strerror}", FAILURE)
    return 0


def main(argv):
    parser = argparse.ArgumentParser(prog="busbar report", description=__doc__.split("\n")[0])
    parser.add_argument("results", nargs="+", metavar="RESULT.json")
    parser.add_argument("-o", "--output", required=True, metavar="FILE")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args(argv)
    try:
        results = read_all(options.results)
        sections = charts.make_all(results)
        title = "busbar: " + (results[0].name if len(results) == 1 else f"{len(results)} results")
        write_atomically(options.output, page.make_page(results, sections, title))
    except result_files.Unreadable as error:
        return print_error(error, INVALID_INPUT)
    except page.Missing as error:
        python = sys.executable or "this Python"
        return print_error(f"{python} {error}: run pip install plotly (in a clone of busbar: sh bootstrap/setup.sh --report)", FAILURE)
    except OSError as error:
        return print_error(f"{options.output}: {error.strerror}", FAILURE)
    return 0 if options.quiet else print_page(options.output)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

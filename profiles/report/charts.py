"""The table of charts: under which heading, of which kinds of results, made by what. A new chart is a row."""
import measured
import steps
import tables
import timeline
from result_files import Unreadable

# (heading, kinds of results, function that yields Charts of all results of these kinds)
CHARTS = (
    ("Collectives", ("collectives",), measured.over_size),
    ("Collectives", ("collectives",), measured.algorithms),
    ("Links", ("p2p",), measured.links),
    ("Communicators", ("comm",), measured.communicators),
    ("Overlap", ("overlap",), measured.contention),
    ("Compute", ("compute",), measured.computing),
    ("Steps", ("proxy", "plan"), steps.waterfalls),
    ("Steps", ("trace", "proxy", "plan"), timeline.timelines),
    ("Steps", ("proxy", "plan"), steps.by_role),
    ("Steps", ("proxy", "plan"), steps.by_group),
    ("Steps", ("proxies",), steps.smoke),
    ("Traffic and memory", ("proxy", "plan"), steps.traffic),
    ("Traffic and memory", ("proxy", "plan"), steps.memory),
    ("Traffic and memory", ("plan",), steps.orders),
    ("Scaling", ("proxy", "plan", "sweep"), steps.scaling),
    ("Comparisons", ("compare",), tables.comparisons),
    ("Calibrations", ("calibration",), tables.residuals),
    ("Calibrations", ("calibration",), tables.parameters),
    ("Studies", ("sweep",), tables.sweeps),
)


# What Python says where a file holds something else than its schema says.
CONTENT_ERRORS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)


def raise_unreadable(make, results, error):
    """Which file it was."""
    for result in results:
        try:
            list(make([result]))
        except CONTENT_ERRORS as own:
            raise Unreadable(f"{result.path} holds what no result of busbar has: {type(own).__name__}, {own}") from own
    raise Unreadable(f"{results[0].path} and the others do not fit together: {error}") from error


def make_charts(make, results):
    try:
        made = list(make(results))
        for chart in made:
            chart.figure()
        return made
    except CONTENT_ERRORS as error:
        return raise_unreadable(make, results, error)


def make_all(results):
    """[(heading, [Chart])] of what there is, in the order of the table."""
    sections = {}
    for heading, kinds, make in CHARTS:
        mine = [result for result in results if result.kind in kinds]
        if mine:
            sections.setdefault(heading, []).extend(make_charts(make, mine))
    return [(heading, made) for heading, made in sections.items() if made]

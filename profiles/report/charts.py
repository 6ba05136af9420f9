"""The table of charts: heading, kinds of results, function that draws them. To add a chart, add a row."""
import health
import measured
import steps
import tables
import timeline
from result_files import Unreadable

# (heading, kinds of results, function that takes all results of these kinds and yields Charts)
CHARTS = (
    ("Health", ("health",), health.nodes),
    ("Health", ("health",), health.pairs),
    ("Collectives", ("collectives",), measured.over_size),
    ("Collectives", ("collectives",), measured.algorithms),
    ("Links", ("p2p",), measured.links),
    ("Communicators", ("comm",), measured.communicators),
    ("Overlap", ("overlap",), measured.contention),
    ("Compute", ("compute",), measured.computing),
    ("Copies", ("copy",), measured.copies),
    ("Training", ("plan",), steps.trainings),
    ("Steps", ("plan",), steps.layouts),
    ("Steps", ("proxy", "plan"), steps.waterfalls),
    ("Steps", ("trace",), timeline.timelines),
    ("Steps", ("proxy", "plan"), steps.by_role),
    ("Steps", ("proxy", "plan"), steps.by_group),
    ("Steps", ("proxy", "plan"), steps.waiting),
    ("Steps", ("proxies",), steps.all_proxies),
    ("Traffic and memory", ("proxy", "plan"), steps.traffic),
    ("Traffic and memory", ("proxy", "plan"), steps.memory),
    ("Traffic and memory", ("plan",), steps.orders),
    ("Scaling", ("proxy", "plan", "sweep"), steps.scaling),
    ("Comparisons", ("compare",), steps.compared),
    ("Comparisons", ("compare",), tables.comparisons),
    ("Calibrations", ("calibration",), tables.residuals),
    ("Calibrations", ("calibration",), tables.parameters),
    ("Studies", ("sweep",), tables.study_charts),
    ("Studies", ("sweep",), tables.sweeps),
)


# Exceptions that Python raises when the content of a file does not match its schema.
CONTENT_ERRORS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)


def does_not_match(result, error):
    return Unreadable(f"{result.path} does not match its schema: {type(error).__name__}, {error}")


def raise_unreadable(make, results, error):
    """Find the file that caused the error by drawing each alone, and raise Unreadable with its path."""
    for result in results:
        try:
            list(make([result]))
        except CONTENT_ERRORS as own:
            raise does_not_match(result, own) from own
    raise Unreadable(f"{results[0].path} cannot be drawn together with the other files: {error}") from error


def make_charts(make, results):
    try:
        made = list(make(results))
        for chart in made:
            chart.figure()
        return made
    except CONTENT_ERRORS as error:
        return raise_unreadable(make, results, error)


def make_all(results):
    """[(heading, [Chart])] for the given results, in the order of CHARTS, without empty headings."""
    sections = {}
    for heading, kinds, make in CHARTS:
        mine = [result for result in results if result.kind in kinds]
        if mine:
            sections.setdefault(heading, []).extend(make_charts(make, mine))
    return [(heading, made) for heading, made in sections.items() if made]

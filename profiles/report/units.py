"""Format numbers: times in us below 10 ms, in ms below 10 s, then in s; bytes in binary units."""
import math

BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def bytes_text(value):
    if not is_number(value):
        return "-"
    step = 0
    while step < len(BYTES) - 1 and abs(value) >= 1023.5 * 1024 ** step:  # 4 digits show 1024
        step += 1
    return f"{value / 1024 ** step:.4g} {BYTES[step]}"


def time_unit(largest_us):
    """(unit name, microseconds per unit) for an axis or a column with this largest value."""
    for min_us, name, us in ((1e7, "s", 1e6), (1e4, "ms", 1e3)):
        if is_number(largest_us) and largest_us >= min_us:
            return name, us
    return "us", 1


def time_text(us):
    if not is_number(us):
        return "-"
    name, per = time_unit(abs(us))
    return f"{us / per:.4g} {name}"


def number_text(value, unit=""):
    if not is_number(value):
        return "-"
    text = f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"
    return f"{text} {unit}".strip()


def short_text(value):
    """Three digits: 15T, 5.08M, 413."""
    if not is_number(value):
        return "-"
    step = min(int(math.log10(max(1, abs(float(f"{value:.3g}")))) / 3), 4)
    return f"{float(f'{value / 1000 ** step:.3g}'):g}{('', 'K', 'M', 'B', 'T')[step]}"


def duration_text(seconds):
    """Two to three digits in the largest fitting unit: 40 s, 10 min, 2.88 h, 15.6 days."""
    if not is_number(seconds):
        return "-"
    name, per = next((unit for unit in (("days", 86400), ("h", 3600), ("min", 60)) if seconds >= 2 * unit[1]), ("s", 1))
    return f"{seconds / per:.3g} {name}"


def share_text(value):
    return f"{100 * value:.3g} %" if is_number(value) else "-"


def settings_text(settings):
    """Names and values, for example "ranks 8, gemm-precision -", with a dash for null as in the table of `sweep`."""
    return ", ".join(f"{name} {'-' if value is None else value}" for name, value in settings.items())


def median_of(value):
    """The median of a statistics object, or the plain number itself; None if there is neither."""
    value = value.get("p50") if isinstance(value, dict) else value
    return value if is_number(value) else None


def interval_of(value):
    """[low, high], the 95 % confidence interval of a statistics object, or None."""
    both = value.get("ci95") if isinstance(value, dict) else None
    return both if isinstance(both, list) and len(both) == 2 and all(map(is_number, both)) else None


def byte_unit(values):
    largest = max(values, default=0)
    for exponent, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if largest >= 1024 ** exponent:
            return 1024 ** exponent, unit
    return 1, "bytes"

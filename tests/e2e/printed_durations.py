"""Durations as Sonde prints them."""

UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def figure(text):
    """A printed duration in nanoseconds, and its largest rounding error."""
    number, unit = text.split()
    return float(number) * UNITS[unit], 0.5 * 10 ** -len(number.partition(".")[2]) * UNITS[unit]

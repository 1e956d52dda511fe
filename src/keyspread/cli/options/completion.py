"""Values that the shell offers for an option after Tab. Typer keeps those that start with what was typed."""


def streams() -> list[str]:
    """Return the names of generated streams; where none fits, the shell offers files."""
    from keyspread.streams.generated.catalog import NAMES

    return list(NAMES)


def schemes() -> list[str]:
    """Return every scheme that can be simulated, published alternatives included."""
    from keyspread.schemes.registry import DESCRIPTORS

    return [scheme.name for scheme in DESCRIPTORS]


def run_schemes() -> list[str]:
    """Return every scheme that can run on Spark."""
    from keyspread.schemes.registry import DESCRIPTORS, Kind

    return [scheme.name for scheme in DESCRIPTORS if scheme.kind is not Kind.PEER]


def scheme_list(incomplete: str) -> list[str]:
    """Complete the last name of a list with commas: 'key,d' → 'key,d-choices'."""
    before, comma, _ = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in run_schemes()]


def formats() -> list[str]:
    """Return the formats of input files."""
    from keyspread.streams.readers.formats import FORMATS

    return list(FORMATS)


def run_formats() -> list[str]:
    """Return formats that Spark's readers have; connectors may add others."""
    return ["csv", "json", "kafka", "orc", "parquet", "table", "tsv"]

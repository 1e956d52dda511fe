"""The paper's abbreviations of the schemes, for plots, tables and verdicts."""

ABBREVIATIONS = {
    "key": "KG",
    "shuffle": "SG",
    "partial-key": "PKG",
    "round-robin": "RR",
    "w-choices": "W-C",
    "d-choices": "D-C",
    "greedy": "Greedy-d",
}

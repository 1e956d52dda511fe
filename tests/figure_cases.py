"""What tests of figures share: a changed table, and the verdict on it."""

from keyspread.paper.reproduce import FIGURES


def verdict_on(name, claim, table):
    (verdict,) = (verdict for verdict in FIGURES[name].verdicts(table) if claim in verdict.claim)
    return verdict


def outcomes(name, table):
    return [verdict.outcome for verdict in FIGURES[name].verdicts(table)]


def changed(table, *changes):
    """Return the table after changes of the form (rows, column, new value)."""
    table = table.copy()
    for rows, column, value in changes:
        table[column] = table[column].astype(float)
        table.loc[table.eval(rows), column] = value
    return table

"""The sentences that every form of a diagnosis uses."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keyspread.diagnosis.diagnosis import Diagnosis


def verdict(diagnosis: "Diagnosis") -> str:
    """Return the result in one sentence."""
    skew = diagnosis.skew
    if diagnosis.facts.get("source") == "data":
        return _of_data(diagnosis)
    if not skew:
        if not diagnosis.facts.get("tasks", 1):
            return "Nothing to diagnose."
        if diagnosis.facts.get("queries") == 0:
            uneven = any(finding.kind == "uneven-input" for finding in diagnosis.findings)
            found = "Uneven tasks" if uneven else "No skew found"
            return f"{found}; whether a key is to blame is unknown, because the log names no key columns."
        if any(finding.unfinished for finding in diagnosis.findings):
            return "Unknown: tasks did not finish, and the log does not hold the rows that explain why."
        keyless = [finding for finding in diagnosis.findings if finding.kind == "uneven-input" and finding.load]
        if keyless:
            count = sum(finding.count for finding in keyless)
            which = f"stage {keyless[0].stage} is" if count == 1 else f"{count:,} stages are"
            return f"No key skew in the stages whose key the log names; {which} uneven without a key in the log."
        unfinished = diagnosis.facts.get("unfinished", 0)
        if unfinished:
            many = "one task" if unfinished == 1 else f"{unfinished:,} tasks"
            return f"No key skew in the tasks that finished; {many} did not finish."
        if not diagnosis.facts.get("ended", 1):
            return "Unknown: the log does not show when a task ended."
        if diagnosis.facts.get("open_jobs"):
            return (
                "No key skew in the jobs that ended; the log stops while another one runs, and Spark writes what its "
                "tasks did late: cancel it or stop the application, and diagnose the log again."
            )
        return "No key skew: no stage lost time to a hot key. There is nothing to spread."
    # Stages that ran side by side lost the same seconds.
    lost = diagnosis.facts.get("lost_to_skew_s") or sum(finding.lost for finding in skew)
    keys = list(dict.fromkeys(", ".join(finding.keys) for finding in skew))
    named = keys[0] if len(keys) == 1 else f"{', '.join(keys[:-1])} and {keys[-1]}"
    whole = diagnosis.facts.get("seconds")
    lost = min(lost, whole) if whole else lost
    share = f" of {whole:.1f} s" if whole else " s"
    # The least of one finding and the most of another add up to neither.
    bound = "about" if any(finding.unfinished for finding in skew) else "at most"
    if all(finding.unfinished for finding in skew):
        bound = "at least"
    return f"Key skew by {named}: {bound} {lost:.1f}{share} lost."


def _of_data(diagnosis: "Diagnosis") -> str:
    workers = diagnosis.facts["workers"]
    if not diagnosis.facts["rows"]:
        return "Nothing to diagnose."
    if not diagnosis.skew:
        worst = max((finding.ratio for finding in diagnosis.findings), default=0.0)
        if any(finding.kind == "few-keys" for finding in diagnosis.findings):
            return f"No hot key: the busiest of {workers:,} partitions has {worst:.2f} × its even share by chance."
        return f"No key skew: the busiest of {workers:,} partitions has {worst:.2f} × its even share. You need nothing."
    worst_finding = max(diagnosis.skew, key=lambda finding: finding.ratio)
    name = ", ".join(worst_finding.keys)
    return f"Key skew by {name}: the busiest of {workers:,} partitions has {worst_finding.ratio:.1f} × its even share."

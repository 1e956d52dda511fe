"""`Diagnosis`: what was found, worst first. The same object from a log, from data and from a running session."""

from dataclasses import asdict, dataclass
from typing import Any

from keyspread.diagnosis.stages.finding import KEY_SKEW, Finding, StageSummary


@dataclass(frozen=True)
class Diagnosis:
    """What was found in one application or one table: `skew` are hot keys, `others` what else cost time."""

    title: str
    facts: dict[str, Any]
    findings: tuple[Finding, ...]
    """All findings, those of key skew first, each kind worst first."""
    notes: tuple[str, ...] = ()
    """What the reader must know about the input: cut, malformed, still running."""
    longest: tuple[StageSummary, ...] = ()
    """The stages that took longest, skewed or not."""

    @property
    def skew(self) -> tuple[Finding, ...]:
        """Return the findings of key skew, worst first."""
        return tuple(finding for finding in self.findings if finding.kind == KEY_SKEW)

    @property
    def others(self) -> tuple[Finding, ...]:
        """Return what else cost time, worst first."""
        return tuple(finding for finding in self.findings if finding.kind != KEY_SKEW)

    @property
    def verdict(self) -> str:
        """Return the result in one sentence."""
        if self.facts.get("source") == "data":
            return _of_data(self)
        return _of_skew(self) if self.skew else _without_skew(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {
            "title": self.title,
            **self.facts,
            "verdict": self.verdict,
            "findings": [finding.to_dict() for finding in self.findings],
            "longest_stages": [asdict(stage) for stage in self.longest],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        """Return the text form, as wide as a terminal of 100 columns."""
        from keyspread.diagnosis.text import as_text

        return as_text(self)

    def to_html(self) -> str:
        """Return one self-contained page: offline, without scripts."""
        from keyspread.diagnosis.page import page

        return page([self])

    def _repr_html_(self) -> str:
        from keyspread.diagnosis.page import fragment

        return fragment(self)


def _of_skew(diagnosis: Diagnosis) -> str:
    skew, whole = diagnosis.skew, diagnosis.facts.get("seconds")
    # Stages that ran side by side lost the same seconds.
    lost = diagnosis.facts.get("lost_to_skew_s") or sum(finding.lost for finding in skew)
    keys = list(dict.fromkeys(", ".join(finding.keys) for finding in skew))
    named = keys[0] if len(keys) == 1 else f"{', '.join(keys[:-1])} and {keys[-1]}"
    share = f"{min(lost, whole):.1f} of {whole:.1f}" if whole else f"{lost:.1f}"
    # The least of one finding and the most of another add up to neither.
    unfinished = [bool(finding.unfinished) for finding in skew]
    bound = "at least" if all(unfinished) else "about" if any(unfinished) else "at most"
    return f"Key skew by {named}: {bound} {share} s lost."


def _without_skew(diagnosis: Diagnosis) -> str:
    facts, findings = diagnosis.facts, diagnosis.findings
    if not facts.get("tasks", 1):
        return "Nothing to diagnose."
    uneven = [finding for finding in findings if finding.kind == "uneven-input"]
    if facts.get("queries") == 0:
        seen = "Uneven tasks" if uneven else "No skew found"
        return f"{seen}; whether a key is to blame is unknown, because the log names no key columns."
    if any(finding.unfinished for finding in findings):
        return "Unknown: tasks did not finish, and the log does not hold the rows that explain why."
    keyless = [finding for finding in uneven if finding.load]
    if keyless:
        count = sum(finding.count for finding in keyless)
        which = f"stage {keyless[0].stage} is" if count == 1 else f"{count:,} stages are"
        return f"No key skew in the stages whose key the log names; {which} uneven without a key in the log."
    if facts.get("unfinished"):
        many = "one task" if facts["unfinished"] == 1 else f"{facts['unfinished']:,} tasks"
        return f"No key skew in the tasks that finished; {many} did not finish."
    if not facts.get("ended", 1):
        return "Unknown: the log does not show when a task ended."
    if facts.get("open_jobs"):
        return (
            "No key skew in the jobs that ended; the log stops while another one runs, and Spark writes what its "
            "tasks did late: cancel it or stop the application, and diagnose the log again."
        )
    return "No key skew: no stage lost time to a hot key. There is nothing to spread."


def _of_data(diagnosis: Diagnosis) -> str:
    if not diagnosis.facts["rows"]:
        return "Nothing to diagnose."
    worst = max(diagnosis.skew or diagnosis.findings, key=lambda finding: finding.ratio)
    busiest = f"the busiest of {diagnosis.facts['workers']:,} partitions has"
    if diagnosis.skew:
        return f"Key skew by {', '.join(worst.keys)}: {busiest} {worst.ratio:.1f} × its even share."
    if any(finding.kind == "few-keys" for finding in diagnosis.findings):
        return f"No hot key: {busiest} {worst.ratio:.2f} × its even share by chance."
    return f"No key skew: {busiest} {worst.ratio:.2f} × its even share. You need nothing."

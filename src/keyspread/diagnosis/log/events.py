"""Turn the events of a log into an `Application`. An event that cannot be understood is counted and left out.

Only what a finding needs is kept. Of the two dozen accumulators of each task these are the rows and bytes read per
exchange, the rows that joins, generators and caches produce, and the start of Python workers: kept by their number,
which the plan names beforehand.

A task that never ends is known by its start alone. The starts are not parsed: each is kept until the end of its task.
"""

import json
import json.scanner
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from keyspread.diagnosis.log.application import (
    COLUMNS,
    FAILED,
    KILLED,
    OUTPUT_ROWS,
    PYTHON_START,
    RUNNING,
    SUCCEEDED,
    WRITE_METRICS,
    Application,
    PlanTree,
    Query,
    Stage,
)

_fast_loads: Callable[[bytes], Any]
try:
    from orjson import loads as _fast_loads
except ModuleNotFoundError:  # half as fast, and all that is needed
    _fast_loads = json.loads

# These events hold nothing for us and are many: they are recognised by their first bytes and not parsed.
_SKIPPED = tuple(
    b'{"Event":"' + name
    for name in (
        b"SparkListenerTaskGettingResult",
        b"SparkListenerBlockUpdated",
        b"SparkListenerExecutorMetricsUpdate",
        b"SparkListenerStageExecutorMetrics",
        b"SparkListenerBlockManager",
        b"SparkListenerUnpersistRDD",
    )
)
_TASK_START = b'{"Event":"SparkListenerTaskStart"'
_STARTED = re.compile(rb'"Stage ID":(\d+),"Stage Attempt ID":(\d+),"Task Info":\{"Task ID":(\d+),')
_PARSE_ERRORS = (TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError, RecursionError)
_WANTED_ENDS = ("idle", "decommission", "shutdown", "killed by driver", "explicit termination", "sc.stop")
_LONGEST_TASK = 366 * 86_400_000
_DEEPEST = 100_000
"""Calls within each other while a deep plan is read, two per level."""
_READ_METRICS = ("records read", "local bytes read", "remote bytes read")
_EXCHANGE_METRICS = {*_READ_METRICS, *WRITE_METRICS}
_PRODUCERS = ("Join", "Generate", "Expand", "CartesianProduct", "InMemoryTableScan")


class EventReader:
    """Fills an application from the lines of its log; `query_ended` is called with the number of every ended query."""

    def __init__(self, application: Application, query_ended: Callable[[int], None]) -> None:
        self.application = application
        self._query_ended = query_ended
        self._executors: dict[str, int] = {}
        self._running: dict[tuple[int, int], dict[int, bytes]] = {}  # stage and attempt -> task -> its start
        self._over = False  # whether what follows is of another log
        self._last = 0  # the time of the last event that has one
        self._wanted: set[int] = set()
        self._of_stage: set[int] = set()
        self._written: set[int] = set()
        self._named: dict[int, set[int]] = {}
        self._plans: Counter[int] = Counter()  # how many running queries name an accumulator: a write repeats a plan
        self._handlers: dict[str, Callable[[dict[str, Any]], None]] = {
            "SparkListenerLogStart": self._log_start,
            "SparkListenerApplicationStart": self._application_start,
            "SparkListenerApplicationEnd": self._application_end,
            "SparkListenerEnvironmentUpdate": self._environment,
            "SparkListenerExecutorAdded": self._executor_added,
            "SparkListenerExecutorRemoved": self._executor_removed,
            "SparkListenerJobStart": self._job_start,
            "SparkListenerStageSubmitted": self._stage_info,
            "SparkListenerStageCompleted": self._stage_info,
            "SparkListenerTaskEnd": self._task_end,
            "SparkListenerSQLExecutionStart": self._plan,
            "SparkListenerSQLAdaptiveExecutionUpdate": self._plan,
            "SparkListenerSQLExecutionEnd": self._query_end,
        }

    def read(self, lines: Iterable[bytes]) -> None:
        """Take every line of a file."""
        application = self.application
        for line in lines:
            application.bytes += len(line) + 1
            if line.startswith(_SKIPPED):
                application.events["skipped"] += 1
            elif line.startswith(_TASK_START):
                if not self._over:
                    self._task_start(line)
            elif line.strip():
                self._take(line)

    def _take(self, line: bytes) -> None:
        application = self.application
        try:
            event = _parse(line)
            # org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart, and com.databricks.… of the same name
            name = event["Event"].rpartition(".")[2]
            application.events[name] += 1
            handler = self._handlers.get(name)
            if handler is not None and (not self._over or name == "SparkListenerApplicationStart"):
                handler(event)
        except _PARSE_ERRORS:
            application.malformed += 1

    def finish(self) -> None:
        """Take the end of the log: what runs now did not end in it."""
        ended = max(self._last, self.application.end or 0)
        for number in list(self._running):
            self._leave_running(number, ended)

    def _log_start(self, event: dict[str, Any]) -> None:
        self.application.version = self.application.version or str(event.get("Spark Version", ""))
        self._over = self.application.end is not None

    def _application_start(self, event: dict[str, Any]) -> None:
        application = self.application
        if application.start is not None or application.id:
            self._over = True
            self._note_second(event)
            return
        application.name = str(event.get("App Name", ""))
        application.id = str(event.get("App ID") or "")
        application.attempt = str(event.get("App Attempt ID") or "")
        application.start = _time(event.get("Timestamp"))

    def _note_second(self, event: dict[str, Any]) -> None:
        """Note that another log follows in the same files: it is left out, or the events of two would be mixed."""
        application = self.application
        same = (application.id, application.start) == (str(event.get("App ID") or ""), _time(event.get("Timestamp")))
        name = str(event.get("App Name") or event.get("App ID") or "")
        note = (
            "the log is there twice: the second copy is left out"
            if same
            else f"another application follows in the same log ({name}) and is left out: split the file to diagnose it"
        )
        if note not in application.notes:
            application.notes.append(note)

    def _application_end(self, event: dict[str, Any]) -> None:
        self.application.end = _time(event.get("Timestamp"))

    def _environment(self, event: dict[str, Any]) -> None:
        properties = event.get("Spark Properties") or {}
        pairs = properties.items() if isinstance(properties, dict) else properties
        self.application.settings.update({str(name): str(value) for name, value in pairs})

    def _executor_added(self, event: dict[str, Any]) -> None:
        cores = int((event.get("Executor Info") or {}).get("Total Cores", 0))
        self.application.executors.add(str(event["Executor ID"]), cores, _time(event.get("Timestamp")))

    def _executor_removed(self, event: dict[str, Any]) -> None:
        self.application.executors.remove(str(event.get("Executor ID")), _time(event.get("Timestamp")) or self._last)
        # Spark also removes executors that it no longer needs: only losses are worth a line.
        reason = str(event.get("Removed Reason", "")).lower()
        if not any(word in reason for word in _WANTED_ENDS):
            self.application.lost_executors += 1

    def _job_start(self, event: dict[str, Any]) -> None:
        execution = (event.get("Properties") or {}).get("spark.sql.execution.id")
        for id in event.get("Stage IDs") or ():
            stage = self._stage(int(id), 0)
            if execution is not None:
                stage.execution = int(execution)
        for info in event.get("Stage Infos") or ():
            self._describe(info)

    def _stage_info(self, event: dict[str, Any]) -> None:
        info = event["Stage Info"]
        stage = self._describe(info)
        stage.submitted = _time(info.get("Submission Time")) or stage.submitted
        stage.completed = _time(info.get("Completion Time")) or stage.completed
        if info.get("Failure Reason"):
            stage.failure = str(info["Failure Reason"]).split("\n")[0][:300]
        execution = (event.get("Properties") or {}).get("spark.sql.execution.id")
        if execution is not None:
            stage.execution = int(execution)
        for added in info.get("Accumulables") or ():
            id, name = int(added["ID"]), added.get("Name")
            if id in self._of_stage or name in _EXCHANGE_METRICS:
                stage.accumulators.add(id)
                if id in self._written or name in WRITE_METRICS:
                    self.application.written[id] = int(added.get("Value", 0))

    def _describe(self, info: dict[str, Any]) -> Stage:
        stage = self._stage(int(info["Stage ID"]), int(info.get("Stage Attempt ID", 0)))
        if not stage.name:
            stage.name = str(info.get("Stage Name", ""))
            stage.number_of_tasks = int(info.get("Number of Tasks", 0))
            stage.parents = tuple(int(id) for id in info.get("Parent IDs") or ())
        return stage

    def _stage(self, id: int, attempt: int) -> Stage:
        stages = self.application.stages
        stage = stages.get((id, attempt))
        if stage is None:
            stage = stages[id, attempt] = Stage(id, attempt)
            first = stages.get((id, 0))
            if first is not None:
                stage.execution = first.execution
        return stage

    def _task_start(self, line: bytes) -> None:
        self.application.events["SparkListenerTaskStart"] += 1
        numbers = _STARTED.search(line)
        if numbers is not None:
            self._running.setdefault((int(numbers[1]), int(numbers[2])), {})[int(numbers[3])] = line

    def _leave_running(self, number: tuple[int, int], ended: int) -> None:
        """Add the tasks of a stage that did not end: they ran at least until `ended`."""
        for line in self._running.pop(number, {}).values():
            try:
                info = _parse(line)["Task Info"]
                launch = int(info["Launch Time"])
                executor = self._executors.setdefault(str(info.get("Executor ID", "")), len(self._executors))
                values = (int(info.get("Index", 0)), launch, max(ended, launch), RUNNING, 0, executor)
                self._stage(*number).tasks.append((*values, *[0] * (len(COLUMNS) - len(values))), {})
            except _PARSE_ERRORS:
                self.application.malformed += 1

    def _task_end(self, event: dict[str, Any]) -> None:
        info = event["Task Info"]
        metrics = event.get("Task Metrics") or {}
        shuffle = metrics.get("Shuffle Read Metrics") or {}
        incoming = metrics.get("Input Metrics") or {}
        executor = str(info.get("Executor ID", ""))
        wanted = self._wanted
        measured: dict[int, int] = {}
        for added in info.get("Accumulables") or ():
            id = added["ID"]
            # The plan of a cache may name its exchange only when the cache is filled.
            if id in wanted or added.get("Name") in _READ_METRICS:
                measured[id] = int(added.get("Update", 0))
        launch, finish = _task_times(info)
        values = (
            int(info.get("Index", 0)),
            launch,
            finish,
            _outcome(event, info),
            1 if info.get("Speculative") else 0,
            self._executors.setdefault(executor, len(self._executors)),
            shuffle.get("Total Records Read", 0),
            shuffle.get("Remote Bytes Read", 0) + shuffle.get("Local Bytes Read", 0),
            incoming.get("Records Read", 0),
            incoming.get("Bytes Read", 0),
            metrics.get("Disk Bytes Spilled", 0),
        )
        number = int(event["Stage ID"]), int(event.get("Stage Attempt ID", 0))
        self._stage(*number).tasks.append(values, measured)
        self._last = max(self._last, values[2])
        running = self._running.get(number)
        if running is not None:
            running.pop(info.get("Task ID"), None)
            if not running:
                del self._running[number]

    def _plan(self, event: dict[str, Any]) -> None:
        id = int(event["executionId"])
        query = self.application.queries.setdefault(id, Query(id))
        if "description" in event:
            query.description = str(event["description"])
            query.details = str(event.get("details") or "")
            changed = event.get("modifiedConfigs") or {}
            query.settings = {str(name): str(value) for name, value in changed.items()}
        plan = PlanTree(event["sparkPlanInfo"])
        before = self._named.get(id, set())
        named = set(before)
        for node in plan.nodes:
            metrics = node.metrics
            if node.is_exchange:
                self._wanted.update(metrics[name] for name in _READ_METRICS if name in metrics)
                self._written.update(metrics[name] for name in WRITE_METRICS if name in metrics)
            else:
                self._wanted.update(metrics[name] for name in PYTHON_START if name in metrics)
                if OUTPUT_ROWS in metrics and any(word in node.name for word in _PRODUCERS):
                    self._wanted.add(metrics[OUTPUT_ROWS])
            # Which operators a stage ran tells which reader of a reused exchange it is.
            if node.is_exchange or plan.reused:
                self._of_stage.update(metrics.values())
            named.update(metrics.values())
        query.plan = plan
        self._plans.update(named - before)
        self._named[id] = named

    def _query_end(self, event: dict[str, Any]) -> None:
        id = int(event["executionId"])
        ended = _time(event.get("time")) or self._last
        self._last = max(self._last, ended)
        stages = self.application.stages
        for number in [number for number in self._running if number in stages and stages[number].execution == id]:
            self._leave_running(number, ended)
        self._query_ended(id)
        for accumulator in self._named.pop(id, ()):
            self._plans[accumulator] -= 1
            if not self._plans[accumulator]:
                del self._plans[accumulator]
                self._wanted.discard(accumulator)
                self._written.discard(accumulator)
                self.application.written.pop(accumulator, None)
                self._of_stage.discard(accumulator)


def _parse(line: bytes) -> dict[str, Any]:
    try:
        event = _fast_loads(line)
    except (ValueError, RecursionError):
        text = line.decode("utf-8", errors="replace")
        try:
            event = json.loads(text)  # NaN, stray bytes: orjson is stricter
        except RecursionError:
            event = _loads_deep(text)
    if not isinstance(event, dict) or not isinstance(event.get("Event"), str):
        raise ValueError("not an event")
    return event


def _loads_deep(text: str) -> Any:
    """Read JSON that is nested deeper than compiled readers go: the plan of a query that was built in a loop.

    Python's own reader in Python takes no room on the stack of C, so only the limit of Python has to be raised.
    """
    decoder = json.JSONDecoder(strict=False)
    decoder.scan_once = json.scanner.py_make_scanner(decoder)  # type: ignore[attr-defined]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _DEEPEST))
    try:
        return decoder.decode(text)
    finally:
        sys.setrecursionlimit(limit)


def _outcome(event: dict[str, Any], info: dict[str, Any]) -> int:
    reason = event.get("Task End Reason") or {}
    if info.get("Killed") or reason.get("Reason") in ("TaskKilled", "TaskCommitDenied"):
        return KILLED
    return FAILED if info.get("Failed") or reason.get("Reason", "Success") != "Success" else SUCCEEDED


def _time(value: Any) -> int | None:
    # Spark writes -1 for a time that it does not know.
    return int(value) if isinstance(value, int) and value > 0 else None


def _task_times(info: dict[str, Any]) -> tuple[int, int]:
    """Return when a task began and ended. Raise a ValueError if that cannot be: one such time would spoil its stage."""
    launch, finish = int(info["Launch Time"]), int(info["Finish Time"])
    if launch <= 0 or finish <= 0 or abs(finish - launch) > _LONGEST_TASK:
        raise ValueError("impossible times")
    return launch, max(finish, launch)

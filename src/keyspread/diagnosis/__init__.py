"""Say which stage of a Spark job lost time to skew, by which key, how much, and what to do. No Spark, no Java.

The path of a log: `log/` (files -> bytes -> events -> stages and plans) -> `stages/` (where the time went -> what
it means -> what to do) -> `Diagnosis`, which `text` and `page` show. `data_findings` says the same from counted keys.
"""

from keyspread.diagnosis.diagnose_log import diagnose_log
from keyspread.diagnosis.diagnosis import Diagnosis
from keyspread.diagnosis.stages.finding import Finding, Remedy

__all__ = ["Diagnosis", "Finding", "Remedy", "diagnose_log"]

"""Streaming queries.

stream_aggregate  `aggregate` of a stream, from rows to results
stream_settings   the session settings that it needs
windows           event-time windows
state             partial states between batches, in Spark's state store
totals            running totals in a folder, through foreachBatch
stream_watch      what every micro-batch did
json_lines        the same as lines of JSON in a file
identity          whose state or folder it is
storage           a folder on any file system
"""

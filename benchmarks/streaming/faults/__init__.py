"""The fault campaign of `stream_faults`: queries on a real cluster, disturbed at chosen moments, compared with Python.

streams → schedules → gates     what is drawn from a seed: rows, ways, faults and the moments they happen at
ways, operators, plain          what a query does, and what plain Python says it must write
driver                          the Spark application: it runs the queries of one group after the other
processes, disk, kinds          the faults
campaign, results, seeds        the loop, what is kept of it, and the schedules that once failed
"""

"""The job of `keyspread run` on Spark: sources → spread → merge → sinks, on bounded data or on a stream."""

"""What `keyspread run` does on Spark: sources → spread → merge → sinks, bounded or streaming."""

"""Start Spark: Java, clusters on this machine, Python workers, silence."""

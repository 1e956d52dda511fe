"""Start Spark on this machine: Java, local clusters, Python workers, logging."""

"""What the running Spark can do, and what its errors mean."""

"""Many simulations as one Spark job, and a model of queues."""

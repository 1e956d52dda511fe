"""What several commands need: a Spark session, an input, the state of the installation."""

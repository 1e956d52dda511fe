"""The same record by record, through a broker in real-time mode."""

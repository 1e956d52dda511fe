"""What a streaming query keeps from batch to batch."""

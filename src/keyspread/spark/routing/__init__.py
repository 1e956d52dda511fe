"""Compute the worker of every row: keys, weights, plans as SQL, senders as Python functions."""

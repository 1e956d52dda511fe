"""Which worker gets a row: the key as a hash, counts, plans as SQL, senders in Python, the exchange."""

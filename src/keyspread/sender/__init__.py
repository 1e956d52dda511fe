"""Route message by message: a sender, its settings and state, and the rules that it may follow."""

"""Judge the stages of an application: where the time went, by which keys, what adaptive execution did, what to do."""

"""Online routing: a sender decides message by message, from what it has routed itself.

sender     the public class `Sender`
settings   its parameters, checked, with every default
hotness    when a key is treated as hot
decay      how old counts lose weight when hot keys change
snapshot   a sender as bytes, and back
"""

"""Planned routing: count a batch, plan it, then route it.

planner     the public function `plan`: counts keys and makes a plan
packing     which worker gets which bucket and which piece of a hot key
head        the hot keys of a plan, cut into pieces
plan        the public class `Plan`: routes messages, is stored as JSON
look_ahead  each sender plans its own part of a batch
"""

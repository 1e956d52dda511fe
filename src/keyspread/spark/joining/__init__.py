"""Joins whose hot keys are cut: count both sides, plan, salt the rows, and let Spark join.

kinds      the types of a join, in all of Spark's spellings
keys       what the sides are joined on, and the form in which keys are compared and hashed
counting   the rows of hot keys on both sides, and the work of all other keys per partition
work       what a key costs: rows that go in and rows that come out
grid       how a hot key is cut, and which worker gets which piece
salts      numbers that make Spark's own exchange send a piece to its worker
partitions how many there are, if nobody says so
plan       the public class `JoinPlan`: what was counted and what follows from it; is stored as JSON
numbering  how the rows of a hot key are told apart, also by a task that runs again
sides      the rows of one side with their salts
assembly   the join itself, and its columns
"""

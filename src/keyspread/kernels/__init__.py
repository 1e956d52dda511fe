"""Compiled loops on arrays. A kernel never raises: its callers check their input first.

Each kernel has an oracle in plain Python in `tests/naive.py`. The files, in the order in which a row meets them:

    compilation        how kernels are compiled, and where the compiled code is stored
    array_types        the types of arrays and numbers that kernels take
    intrinsics         machine instructions that Numba has no name for
    mixing             key -> 64 well-mixed bits -> a candidate worker
    summary            SpaceSaving: count every key, find the hot ones
    choices            the number of candidates that a hot key needs
    balance            the loads of the workers, and the least loaded of any set of workers
    weighted_balance   the same for loads that grow by weights
    routing            the loops over messages, one per family of schemes
    candidate_lists    the same for hot keys that have lists of workers of different lengths
    weighted_routing   the same for messages with weights
    tournament         the least of many scores, where one score changes at a time
    packing            a plan: which worker gets which bucket and how much of each hot key
    cuts               a plan: where hot keys are cut
    planned_routing    routing by a plan that was made before
    peers              routing by the rules of published alternatives
    tally              loads and replicas of messages that were routed

State is stored in named tuples of arrays (`Summary`, `Balance`, `WeightedBalance`, `Candidates`), so that a kernel
takes a few arguments that explain themselves.
"""

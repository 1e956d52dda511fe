"""Compiled loops on arrays. A kernel never raises: its callers check their input first.

Each kernel has an oracle in plain Python in `tests/naive.py`. The files, in the order in which a row meets them:

    compilation      how kernels are compiled and stored, the types of their arrays, machine instructions
    mixing           key -> 64 well-mixed bits -> a candidate worker; how many candidates a hot key needs
    summary          SpaceSaving: count every key, find the hot ones
    balance          the loads of the workers, and the least loaded of any set of workers
    routing          the loops over messages, one per family of schemes
    candidate_lists  the same for hot keys that have lists of workers of different lengths
    weighted         loads that grow by weights, and the loops over messages with weights
    packing          a plan: which worker gets which bucket and how much of each hot key
    planned_routing  where a plan cuts hot keys, and routing by it; what was routed: loads and replicas
    peers            routing by the rules of published alternatives

State is stored in named tuples of arrays (`Summary`, `Balance`, `WeightedBalance`, `Candidates`), so that a kernel
takes a few arguments that explain themselves.
"""

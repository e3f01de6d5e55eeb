"""Operations of many objects as columns, judged in one call: the kernels without a search, on numpy.

The way of the data: ``columns`` (operations as arrays of numbers, and in order) -> ``registers`` and ``logs`` (which
objects are right, which are not, which need another kernel) -> ``judge`` (whatever was not proved right goes to the
kernels of single objects, which give the verdict and the evidence). Nothing here reads files or knows of an engine; at
most ``CALL_OPERATIONS_MAX`` operations a call.
"""

"""The replica as a process: the core between a network and a disk.

A request arrives at the gRPC services, becomes a value in the codec of ``replica.rpc``, is handed to the core as an
event, and the effects of that step are performed in order. A reply goes back through the same codec, and requests to
other replicas leave through it as well.

Who is let do what, where a replica is told to ask (``access``): ``callers`` says who calls, by a certificate or by one
of ``tokens``, ``rights`` what each RPC needs, ``authorizer`` decides, and ``audit`` writes it down.
"""

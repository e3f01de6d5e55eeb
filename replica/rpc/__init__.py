"""What server and client share of the wire: how a value becomes bytes, and how a call reaches a replica.

``codec`` is the table of RPCs: field by field in ``codec_shapes``, each in its bound by ``codec_bounds``, records by
``codec_records``. ``addresses`` says where to dial, ``channels`` how a connection behaves, and ``transport`` dials,
calls, and says of a failed call whether it may have arrived (``failures``). Writes travel together by ``gathering``.
"""

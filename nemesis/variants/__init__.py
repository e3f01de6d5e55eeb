"""Protocols with one wrong rule each, by which the harness shows that it would notice.

``rules`` has the wrong rules, ``registry`` what each is called, which schedule brings it about and which anomaly must
convict it, ``server`` starts a replica with one of them. The replica package knows nothing of any of this, and no
option of ``replica start`` leads here.
"""

from __future__ import annotations

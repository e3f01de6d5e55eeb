"""What the cluster has decided, and how it is written down.

Read in this order: ``records`` (one class per decision), ``levels`` (from when on each may be written), ``acls`` (who
may do what), ``image`` (their sum), ``configs`` (what a topic can be told), ``encoding`` (records as bytes in the
metadata log), ``replay`` (the committed log, applied), ``snapshots`` (the image as bytes), ``pages`` (as much of it as
one answer tells).
"""

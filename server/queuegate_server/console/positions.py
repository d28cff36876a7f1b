"""Where the ACLs of the served policy are written.

The policy that is served does not keep positions, so its files are read again, in a thread. They
count only if they still are the text that is served.
"""

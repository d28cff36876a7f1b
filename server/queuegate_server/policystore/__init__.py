"""Policies: from the files of the scheduler to the snapshot that is served."""

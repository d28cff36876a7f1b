"""From the files of the scheduler to the snapshot that is served, at the start and at a reload."""

"""Hadoop YARN configuration: the schedulers' files and yarn-site.xml."""

"""Configuration of Hadoop YARN: its schedulers' files and yarn-site.xml."""

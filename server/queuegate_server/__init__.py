"""The queuegate server: user, group and queue access decisions for cluster schedulers."""

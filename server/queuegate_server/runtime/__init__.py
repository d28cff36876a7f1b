"""This process and the system under it: threads, memory, open files, ports, systemd."""

"""The process and its system: event loop, threads, children, memory, files, ports, systemd."""

"""Operating-system facilities: event loop, threads, processes, resources, sockets, systemd."""

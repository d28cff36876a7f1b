"""The policy core: ACLs, queue trees and decisions. No I/O, clocks, logs or third-party imports."""

"""The pure core: ACLs, queue trees and decisions. No I/O, clock, log or protobuf."""

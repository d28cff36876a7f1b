"""The policy core: ACLs, queue trees and decisions. No I/O, clock, log or third-party import.

The server decides with it, and so can a program that holds the policy itself.
"""

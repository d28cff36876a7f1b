"""The policy core: ACLs, queue trees and decisions. No I/O, clock, log or third-party import.

The server decides with it, and so can any program that holds the policy.
"""

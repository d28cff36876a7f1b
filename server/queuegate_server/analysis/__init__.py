"""Analyzes policies: who gains and loses access, and which claims hold."""

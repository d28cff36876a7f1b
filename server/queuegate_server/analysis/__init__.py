"""The meaning of policies for people: who gains and loses access, and which claims hold."""

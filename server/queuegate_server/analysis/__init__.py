"""What policies mean for people: who gains and loses, and which claims hold."""

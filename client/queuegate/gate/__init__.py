"""Gates, which make decisions in the caller's process: `queuegate.Gate` and
`queuegate.aio.Gate`.
"""

"""Issues the webhook's certificate, and has the API server trust it: `queuegate-server admission
certificate`.
"""

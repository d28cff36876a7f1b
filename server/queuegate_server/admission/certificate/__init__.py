"""Issues the webhook's certificate, and makes the API server trust it: `queuegate-server admission
certificate`.
"""

"""What YuniKorn's admission controller does: the endpoints /mutate, /validate and /validate-conf.

`rules` decides about the user info annotation, `workloads` finds it in objects, and
`yunikorn_duties` adds the rest of what a pod needs. Their settings are YuniKorn's
(`yunikorn_settings`).
"""

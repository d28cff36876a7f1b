"""The endpoints of YuniKorn's admission controller: /mutate, /validate and /validate-conf.

`rules` decides who may set the user info annotation, `workloads` finds it in objects, and
`yunikorn_duties` adds the rest of what a pod needs. Their settings are YuniKorn's
(`yunikorn_settings`).
"""

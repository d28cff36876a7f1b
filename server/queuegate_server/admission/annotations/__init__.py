"""The endpoints of YuniKorn's admission controller: /mutate, /validate and /validate-conf.

`rules` decides who may set the user info annotation, `workloads` finds it in objects, and
`yunikorn_duties` adds what else YuniKorn needs in a pod. All three use YuniKorn's settings
(`yunikorn_settings`).
"""

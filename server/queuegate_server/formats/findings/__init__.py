"""The findings of `validate` and `lint`, in one table for each subject.

`finding` defines what an entry holds. `acls` has the findings about names and ACLs in all formats,
`yunikorn` those about a queues.yaml, `yarn` those about a YARN cluster's files, and `users` those
that compare a policy with a list of users. `table` lists all of them, for SARIF and the reference.
"""

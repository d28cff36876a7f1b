"""The findings of `validate` and `lint`, in one table for each subject.

`finding` defines what an entry holds, and reads the tables: a TOML file beside each module, which
names the findings that code refers to. `acls` has the findings about names and ACLs in all formats,
`yunikorn` those about a queues.yaml, `yarn` those about the files of YARN's schedulers, `yarn_site`
those about a yarn-site.xml, `spark` those about a spark-defaults.conf, and `users` those that
compare a policy with a list of users. `table` lists all of them, for SARIF and the reference.
"""

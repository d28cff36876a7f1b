"""The findings of `validate`, `lint` and other commands that read policies, as data.

`finding` defines an entry. `table` reads the TOML files, one for each subject, and returns a
finding by its identifier; SARIF and the reference read the same tables.
"""

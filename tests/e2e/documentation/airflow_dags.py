"""Prints which DAGs of a folder Airflow loads, and its import errors, as JSON.

Runs in an environment of its own, in which Airflow is installed.
"""

import json
import sys

from airflow.dag_processing.dagbag import DagBag

bag = DagBag(dag_folder=sys.argv[1])
print(json.dumps({"dags": sorted(bag.dags), "errors": bag.import_errors}))

"""The search of random objects finds what the rules on the page say."""

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from queuegate_server.admission.queues.kinds import Kind
from queuegate_server.admission.queues.places import build_places
from queuegate_server.admission.queues.walk import find_names
from queuegate_server.settings.admission import QueueChecks

YUNIKORN = "yunikorn.apache.org/queue"
PARENT = "yunikorn.apache.org/parentqueue"
KUEUE = "kueue.x-k8s.io/queue-name"
KAI = "kai.scheduler/queue"
POOL = "kai.scheduler/node-pool"
OWN = "example.com/queue"
RUN: Kind = ("batch.example.com", "TrainingRun")
TRAIN_JOB: Kind = ("trainer.kubeflow.org", "TrainJob")
EXPRESSION = "{expression}"
SPARK = "spark.kubernetes.driver.label."
PLACES = build_places(
    QueueChecks.model_validate(
        {
            "schedulers": {
                **{name: {} for name in ("yunikorn", "kueue")},
                **{name: {"below": f"root.{name}"} for name in ("volcano", "kai")},
                "places": [{"label": OWN}, {"kind": "/".join(RUN), "field": "spec.items.queue"}],
            }
        }
    )
)
Path = tuple[str | int, ...]
FIELDS: dict[Kind, tuple[str, tuple[str, ...]]] = {
    ("batch.volcano.sh", "Job"): ("volcano", ("spec", "queue")),
    RUN: ("places[1]", ("spec", "items", "queue")),
}
WITHIN: dict[Kind, Path] = {
    ("argoproj.io", "WorkflowEventBinding"): ("spec", "submit"),
    ("workload.codeflare.dev", "AppWrapper"): ("spec", "components", "template"),
}
METADATA_OF_PODS: set[Kind] = {
    ("", "Pod"),
    ("", "Binding"),
    ("sparkoperator.k8s.io", "SparkApplication"),
}
PREFIXED = {YUNIKORN: "yunikorn", KUEUE: "kueue", OWN: "places[0]"}
KINDS: list[Kind] = [
    ("", "Pod"),
    ("", "Binding"),
    ("", "Namespace"),
    ("apps", "Deployment"),
    ("ray.io", "RayCluster"),
    ("sparkoperator.k8s.io", "SparkApplication"),
    TRAIN_JOB,
    *WITHIN,
    *FIELDS,
]
Found = tuple[str, str, str]

KEYS = st.sampled_from(["queue", "project", "x", YUNIKORN, PARENT, KUEUE, KAI, POOL, OWN])
SCALARS = st.sampled_from(["", "a", "root.b", None, 3, 0, False, "{{x}}"])
ENTRIES = st.dictionaries(KEYS, SCALARS | st.just(["a"]), max_size=4)
EXPRESSIONS = st.dictionaries(KEYS, st.just({"expression": "x"}), max_size=2)
CONF = st.dictionaries(KEYS.map(f"{SPARK}{{}}".format), SCALARS, max_size=3)


def holders(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return maps whose members are those that the search knows."""
    metadata = st.fixed_dictionaries(
        {},
        optional={
            "labels": ENTRIES,
            "annotations": ENTRIES,
            "labelsFrom": EXPRESSIONS,
            "managedFields": inner,
        },
    )
    plain = st.fixed_dictionaries(
        {},
        optional={
            "labels": ENTRIES | inner,
            "annotations": ENTRIES,
            "metadata": metadata,
            "workflowMetadata": metadata,
            "queue": SCALARS,
            "sparkConf": CONF | inner,
            **dict.fromkeys(
                (
                    *("spec", "template", "containers", "selector", "driver"),
                    *("headGroupSpec", "submit"),
                ),
                inner,
            ),
            **dict.fromkeys(
                ("items", "components", "podSetInfos", "workerGroupSpecs", "volumeClaimTemplates"),
                st.lists(inner, max_size=2),
            ),
        },
    )
    return plain | st.builds(
        lambda kind, value: {"apiVersion": f"{kind[0]}/v1".strip("/"), "kind": kind[1], **value},
        st.sampled_from(KINDS),
        plain,
    )


OBJECTS = holders(st.recursive(SCALARS, holders, max_leaves=15))


@given(st.sampled_from(KINDS), OBJECTS)
def test_random_objects_as_in_the_naive_search(kind: Kind, value: dict[str, Any]) -> None:
    found = {
        (each.scheduler, each.name, each.where) for each in find_names(kind, value, PLACES) if each
    }
    assert found == Naive(kind, value).found()


class Naive:
    """Searches an object by the rules on the page, one map at a time and without any bound."""

    def __init__(self, kind: Kind, root: dict[str, Any]) -> None:
        self.kind = kind
        self.root = root

    def found(self) -> set[Found]:
        """Return the scheduler, the name and the position of each name."""
        found: set[Found] = set()
        projects: list[tuple[str, str]] = []
        pools: set[str] = set()
        for path, value in self.maps(self.root, ()):
            found.update(self.in_fields(path, value))
            for key, text, where, is_overridden in self.labels(path, value):
                if key == POOL and is_some(text):
                    pools.add(as_text(text))
                if key == "project" and is_some(text) and not is_overridden:
                    projects.append((name(text), where))
            found.update(self.in_keys(path, value))
        found.update(("kai", project, where) for project, where in projects)
        joined = {
            ("kai", f"{one}-{pool}", where)
            for one, where in projects
            for pool in pools
            if one != EXPRESSION
        }
        return found | joined

    def maps(self, value: object, path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Yield all maps with their positions."""
        if path[-2:] == ("metadata", "managedFields") and self.is_object(path[:-2]):
            return
        if isinstance(value, list):
            for number, item in enumerate(value):
                yield from self.maps(item, (*path, number))
        if isinstance(value, dict):
            yield path, value
            for member, child in value.items():
                yield from self.maps(child, (*path, member))

    def is_ignored(self, path: Path, holder: dict[str, Any], *keys: tuple[str, str]) -> bool:
        """Return whether one of the keys is set in a map that is the metadata of the pod."""
        if self.kind != ("", "Pod") or path != ("metadata",):
            return False
        return any(
            is_name(entries.get(key))
            for map_name, key in keys
            if isinstance(entries := holder.get(map_name), dict)
        )

    def at(self, path: Path) -> Any:
        """Return the value at a position."""
        value: Any = self.root
        for step in path:
            value = value[step]
        return value

    def kind_at(self, path: Path) -> Kind | None:
        """Return the kind of the object at a position."""
        if not path:
            return self.kind
        value = self.at(path)
        if not isinstance(value, dict) or not isinstance(value.get("apiVersion"), str):
            return None
        return value["apiVersion"].rpartition("/")[0], value["kind"]

    def in_fields(self, path: Path, value: dict[str, Any]) -> Iterator[Found]:
        """Yield the names in the fields of an object."""
        scheduler, field = FIELDS.get(self.kind_at(path) or ("", ""), ("", ()))
        for text, position in values(value, field, path) if field else ():
            if is_some(text):
                yield scheduler, name(text), where_is(position)

    def labels(self, path: Path, value: dict[str, Any]) -> Iterator[tuple[str, object, str, bool]]:
        """Yield the labels of pods and owners in a map: key, value, position, and whether KAI's key
        stands beside them.
        """
        labels = value.get("labels")
        if isinstance(labels, dict) and (self.is_of_pod(path) or self.is_of_owner(path)):
            for key, text in labels.items():
                is_overridden = self.is_ignored(path, value, ("labels", KAI))
                yield key, text, where_is((*path, "labels", key)), is_overridden
        if isinstance(value.get("sparkConf"), dict):
            for key, text in value["sparkConf"].items():
                if key.startswith(SPARK):
                    where = where_is((*path, "sparkConf", key))
                    yield key.removeprefix(SPARK), text, where, False

    def in_keys(self, path: Path, value: dict[str, Any]) -> Iterator[Found]:
        """Yield the names in the labels and annotations in a map, except projects."""
        for map_name in ("labels", "annotations", "labelsFrom", "sparkConf"):
            entries = value.get(map_name)
            if not isinstance(entries, dict) or (
                map_name != "sparkConf" and self.is_selector(path)
            ):
                continue
            for key, text in entries.items():
                for scheduler in self.readers(path, value, map_name, key):
                    if is_some(text):
                        found = EXPRESSION if map_name == "labelsFrom" else name(text)
                        yield scheduler, found, where_is((*path, map_name, key))

    def readers(self, path: Path, holder: dict[str, Any], map_name: str, key: str) -> Iterator[str]:
        """Yield the schedulers that read a key in a map."""
        if map_name == "sparkConf":
            if not key.startswith(SPARK):
                return
            key, of_pod, holder = key.removeprefix(SPARK), True, {}
        else:
            of_pod = self.is_of_pod(path)
        if key in PREFIXED:
            yield PREFIXED[key]
        if map_name == "annotations":
            if key == PARENT and self.object_of_metadata(path) == ("", "Namespace"):
                yield "yunikorn"
            yield from ["kai"] * (key == KAI)
            return
        if key == KAI:
            yield "kai"
        if key == "project" and map_name == "labelsFrom":
            is_ignored = self.is_ignored(path, holder, ("labels", KAI))
            yield from ["kai"] * ((of_pod or self.is_of_owner(path)) and not is_ignored)
        is_pod = self.object_of_metadata(path) in METADATA_OF_PODS
        if key == "queue" and (of_pod or is_pod):
            beside = [("labels", YUNIKORN), ("annotations", YUNIKORN)]
            yield from ["yunikorn"] * (not self.is_ignored(path, holder, *beside))

    def is_object(self, path: Path) -> bool:
        """Return whether the map at a position is an object that exists or will be created."""
        levels = tuple(step for step in path if not isinstance(step, int))
        return not path or levels == WITHIN.get(self.kind)

    def is_selector(self, path: Path) -> bool:
        return bool(path) and path[-1] == "selector"

    def object_of_metadata(self, path: Path) -> Kind | None:
        """Return the kind of the object whose metadata is at a position."""
        return self.kind_at(path[:-1]) if path[-1:] == ("metadata",) else None

    def is_of_pod(self, path: Path) -> bool:
        """Return whether the map at a position has the labels of pods in a template."""
        if path[-1:] == ("headGroupSpec",):
            return True
        if path[-2:-1] in {("podSetInfos",), ("workerGroupSpecs",)}:
            return True
        is_in_spark = self.is_in_spark(path)
        if path[-1:] == ("driver",) and is_in_spark:
            return True
        if path[-1:] != ("metadata",) or self.is_object(path[:-1]):
            return False
        spec = self.at(path[:-1]).get("spec")
        spec = spec if isinstance(spec, dict) else {}
        if "containers" in spec or is_in_spark:
            return True
        steps = [step for step in path[:-1] if not isinstance(step, int)]
        in_claim = steps[-1] == "volumeClaimTemplates"
        return not isinstance(spec.get("template"), dict) and not in_claim

    def is_in_spark(self, path: Path) -> bool:
        """Return whether a position is within an object of the Spark operator."""
        above = [self.kind_at(path[:length]) for length in range(len(path))]
        return any(kind is not None and kind[0] == "sparkoperator.k8s.io" for kind in above)

    def is_of_owner(self, path: Path) -> bool:
        """Return whether the map at a position has the labels of an object that owns pods."""
        if path[-1:] == ("spec",):
            return self.kind_at(path[:-1]) == TRAIN_JOB
        if path[-1:] == ("workflowMetadata",):
            return True
        if path[-1:] != ("metadata",):
            return False
        spec = self.at(path[:-1]).get("spec")
        has_template = isinstance(spec, dict) and isinstance(spec.get("template"), dict)
        return has_template or self.is_object(path[:-1])


def values(value: object, field: Path, path: Path) -> Iterator[tuple[object, Path]]:
    """Yield what is in a field below a position."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            is_list = isinstance(item, list)
            yield from values({} if is_list else item, () if is_list else field, (*path, number))
    elif not field:
        yield value, path
    elif isinstance(value, dict) and field[0] in value:
        yield from values(value[field[0]], field[1:], (*path, field[0]))


def is_some(value: object) -> bool:
    """Return whether a value may be a name."""
    return value is not None and value != ""


def is_name(value: object) -> bool:
    """Return whether a value is certainly a name."""
    return isinstance(value, str) and value != ""


def name(value: object) -> str:
    """Return the name that a value is."""
    text = as_text(value)
    return EXPRESSION if "{{" in text else text


def as_text(value: object) -> str:
    """Return a value as text."""
    return "{…}" if isinstance(value, dict | list) else str(value).lower()


def where_is(path: Path) -> str:
    """Return a position as text."""
    text = ""
    for number, step in enumerate(path):
        if isinstance(step, int):
            text += f"[{step}]"
        elif number and path[number - 1] in {"labels", "annotations", "labelsFrom", "sparkConf"}:
            text += f'["{step}"]'
        else:
            text += f".{step}" if text else step
    return text

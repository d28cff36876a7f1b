"""The templates that operators fetch or parse later, in kinds that are searched. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from queuegate_server.admission.queues.kinds import Kind
from queuegate_server.admission.queues.model import FETCHED, PATCH, TEXT


class HiddenPlace(NamedTuple):
    """A field with a template that cannot be searched."""

    path: tuple[str, ...]
    """The members from the object to the field."""
    stands_for: str
    """What stands for the names in the template: FETCHED, or, if only text hides them, TEXT, or
    PATCH for a JSON patch."""


HIDDEN: Final[Mapping[Kind, Sequence[HiddenPlace]]] = {
    # A ConfigMap of any namespace has the template (`ConfigMapSource` in Katib's
    # `experiment_types.go`).
    ("kubeflow.org", "Experiment"): tuple(
        HiddenPlace(("spec", "trialTemplate", "configMap", name), FETCHED)
        for name in ("configMapName", "configMapNamespace", "templatePath")
    ),
    # A map, or JSON (`ScheduleSpecToExecutionSpec` in Kubeflow Pipelines).
    ("kubeflow.org", "ScheduledWorkflow"): (HiddenPlace(("spec", "workflow", "spec"), TEXT),),
    # Patches of the VirtualMachine that the operator creates.
    ("clone.kubevirt.io", "VirtualMachineClone"): (HiddenPlace(("spec", "patches"), PATCH),),
    ("snapshot.kubevirt.io", "VirtualMachineRestore"): (HiddenPlace(("spec", "patches"), PATCH),),
    # Objects that the operator creates (`HandleKubernetesComponents`).
    **{
        ("workspace.devfile.io", kind): tuple(
            HiddenPlace((*above, *plugins, "components", name, "inlined"), TEXT)
            for plugins in ((), ("components", "plugin"))
            for above in (spec, (*spec, "parent"), ("spec", "contributions"))
            for name in ("kubernetes", "openshift")
        )
        for kind, spec in (
            ("DevWorkspace", ("spec", "template")),
            ("DevWorkspaceTemplate", ("spec",)),
        )
    },
}
"""The templates that operators fetch or parse later, in kinds that are searched."""

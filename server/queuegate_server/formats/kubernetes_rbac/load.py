"""Loads the roles, bindings and queues in manifests, and reports their errors."""

from queuegate.policy.tree import Partition
from queuegate_server.formats.diagnostics import (
    Diagnostic,
    Diagnostics,
    ParseError,
    diagnostic_of,
    has_errors,
    sort_diagnostics,
)
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.kubernetes_rbac.compiler import compile_objects
from queuegate_server.formats.kubernetes_rbac.grants import (
    MAX_GRANTS,
    MAX_NAMESPACE_GRANTS,
    RbacOptions,
    TooManyGrants,
    bindings_of,
)
from queuegate_server.formats.kubernetes_rbac.manifests import split
from queuegate_server.formats.kubernetes_rbac.objects import Objects, add_objects
from queuegate_server.formats.yaml_reader import read_documents


def read_objects(data: bytes, file: str) -> tuple[Objects, list[Diagnostic]]:
    """Return the objects in manifests, and the errors. The arguments are those of `load_rbac`."""
    objects = Objects()
    found: list[Diagnostic] = []
    try:
        for manifest in split(data, file):
            diagnostics = Diagnostics(manifest.name)
            with diagnostics:
                for document in read_documents(manifest.data, diagnostics):
                    add_objects(document, diagnostics, objects)
            found += diagnostics.sorted()
    except ParseError as error:
        found.append(error.diagnostic(file))
    if not objects.number and not found:
        found.append(diagnostic_of(finding("no-rbac"), file, 1, 1))
    return objects, found


def load_rbac(
    data: bytes, file: str, options: RbacOptions
) -> tuple[Partition | None, tuple[Diagnostic, ...]]:
    """Load manifests as a policy.

    Args:
        data: The text of one file, or the text that `ManifestFiles` makes of several files.
        file: The name of the file, for diagnostics. Not used for several files.
        options: The options for reading RBAC.

    Returns:
        The partition, None if there are errors, and the diagnostics.
    """
    objects, found = read_objects(data, file)
    if has_errors(found):
        return None, tuple(sort_diagnostics(found))
    too_many: dict[str, int] = {}
    partition = None
    try:
        compiler = compile_objects(objects, options)
        too_many = {bindings_of(each): MAX_NAMESPACE_GRANTS for each in compiler.left_out}
        partition = None if too_many else compiler.partition
    except TooManyGrants:
        too_many = {"the cluster's bindings": MAX_GRANTS}
    for bindings, most in too_many.items():
        limit = {"bindings": bindings, "most": str(most)}
        found.append(diagnostic_of(finding("too-many-grants", **limit), file, 1, 1))
    return partition, tuple(sort_diagnostics(found))

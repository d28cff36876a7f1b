"""Generate the stubs for the contract: `python -m proto.generate [FOLDER]`.

Writes the Python stubs under FOLDER (default: `client`), and the Go stubs under
FOLDER/go. grpcio-tools is deliberately pinned to an old release: generated code
rejects a protobuf or grpcio runtime older than its generator, and clients must
not be forced to use the newest. `go.mod` in this folder pins the Go generators;
if Go itself is missing, the version pinned for the tests is installed.
"""

import sys
import sysconfig
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

from tests.support import go_toolchain

PROTO = Path(__file__).resolve().parent
STUBS = PROTO.parent / "client"
DESCRIPTORS = Path("queuegate", "v1", "contract.binpb")
"""All files of the contract with their comments, for server reflection."""
GO_MODULE = "github.com/queuegate/queuegate/client/go"


def generate(output: Path) -> None:
    """Write the stubs for every .proto file under `output`.

    Raises SystemExit with the compiler's status if the contract does not compile, or with a
    message if Go is unavailable.
    """
    (output / DESCRIPTORS).parent.mkdir(parents=True, exist_ok=True)
    scripts = Path(sysconfig.get_path("scripts"))
    _compile(
        f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
        f"--python_out={output}",
        f"--grpc_python_out={output}",
        f"--mypy_out={output}",
        f"--mypy_grpc_out={output}",
        f"--descriptor_set_out={output / DESCRIPTORS}",
        "--include_source_info",
    )
    _generate_go(output / "go")


def _generate_go(output: Path) -> None:
    output.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as plugins:
        try:
            go_toolchain.run("build", "-o", f"{plugins}/", "tool", folder=PROTO)
        except go_toolchain.GoError as error:
            raise SystemExit(f"the Go stubs were not generated: {error}") from None
        _compile(
            f"--plugin=protoc-gen-go={plugins}/protoc-gen-go",
            f"--plugin=protoc-gen-go-grpc={plugins}/protoc-gen-go-grpc",
            f"--go_out={output}",
            f"--go_opt=module={GO_MODULE}",
            f"--go-grpc_out={output}",
            f"--go-grpc_opt=module={GO_MODULE}",
        )


def _compile(*options: str) -> None:
    sources = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    well_known = str(files("grpc_tools") / "_proto")
    status = protoc.main(["protoc", f"-I{PROTO}", f"-I{well_known}", *options, *sources])
    if status:
        raise SystemExit(status)


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else STUBS)

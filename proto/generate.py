"""Generate the Python stubs of the contract: `generate.py [FOLDER]`.

Writes below FOLDER (default: `client`). grpcio-tools is pinned to an old
release on purpose: generated code refuses a protobuf or grpcio runtime older
than its generator, and clients must not be forced onto the newest.
"""

import sys
import sysconfig
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

PROTO = Path(__file__).resolve().parent
STUBS = PROTO.parent / "client"
DESCRIPTORS = Path("queuegate", "v1", "contract.binpb")
"""All files of the contract with their comments, for server reflection."""


def generate(output: Path) -> None:
    """Write the stubs of every .proto file below `output`.

    Raises SystemExit with the compiler's status if the contract does not compile.
    """
    (output / DESCRIPTORS).parent.mkdir(parents=True, exist_ok=True)
    sources = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    well_known = str(files("grpc_tools") / "_proto")
    scripts = Path(sysconfig.get_path("scripts"))
    status = protoc.main(
        [
            "protoc",
            f"-I{PROTO}",
            f"-I{well_known}",
            f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
            f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
            f"--python_out={output}",
            f"--grpc_python_out={output}",
            f"--mypy_out={output}",
            f"--mypy_grpc_out={output}",
            f"--descriptor_set_out={output / DESCRIPTORS}",
            "--include_source_info",
            *sources,
        ]
    )
    if status:
        raise SystemExit(status)


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else STUBS)

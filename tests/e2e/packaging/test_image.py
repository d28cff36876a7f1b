"""The Dockerfile, linted, and the image that it makes, built and run without a Docker engine.

`tests/image/build` builds the image, where root can install buildah and debootstrap. It runs as a
container does: with the image as its read-only root, as the image's user.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

import queuegate
from tests.e2e.packaging import sbom
from tests.e2e.packaging.dockerfile import PROJECT, instructions, stage
from tests.e2e.packaging.locks import hashes
from tests.support.eventually import eventually
from tests.support.servers import ldap_entries
from tests.support.servers.slapd import GROUPS, PASSWORD, PEOPLE, SERVICE, running_slapd

BUILD_SECONDS = 900
IMPOSSIBLE = 77
pytestmark = pytest.mark.timeout(BUILD_SECONDS)

SETTINGS = {
    "policy": {"path": "/mnt/queues.yaml"},
    "partitions": {"default": {"resolver": "corp"}},
}
LDAP = {
    "type": "ldap",
    "ca_file": "/mnt/ca.pem",
    "bind_dn": SERVICE,
    "bind_password_file": "/mnt/password",
    "user_base": PEOPLE,
    "group_base": GROUPS,
    # A busy machine must not decide the outcome.
    "lookup_timeout": "60s",
}
QUEUES = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: analytics
            submitacl: " analysts"
"""
TEXT = (PROJECT / "Dockerfile").read_text()
FINAL = stage(TEXT, "")


def only(instruction: str) -> str:
    """Return the argument of an instruction that the final stage has once."""
    [argument] = [found for name, found in FINAL if name == instruction]
    return argument


def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sysconfig.get_path("scripts")) / "hadolint"
    result = subprocess.run(
        [hadolint, "--no-color", "--failure-threshold", "style", "-"],
        input=TEXT,
        text=True,
        capture_output=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, "")
    assert "hadolint ignore" not in TEXT
    assert not list(PROJECT.glob(".hadolint*"))


def base() -> str:
    """The image that the first stage begins with."""
    froms = [argument.partition(" AS ") for name, argument in instructions(TEXT) if name == "FROM"]
    stages = {name for _, _, name in froms}
    outside = [base for base, _, _ in froms if base not in {*stages, "scratch"}]
    [image] = outside
    return image


def test_base_is_pinned_to_a_full_version_and_digest() -> None:
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}", base())


def test_final_stage_runs_no_command_and_is_not_root() -> None:
    assert "RUN" not in dict(FINAL)
    assert only("USER") == "65532:65532"


def test_entry_points_are_in_exec_form() -> None:
    assert json.loads(only("ENTRYPOINT")) == ["queuegate-server"]
    assert json.loads(only("CMD")) == ["serve"]
    assert json.loads(only("HEALTHCHECK").partition("CMD ")[2]) == ["queuegate", "health"]


def test_context_holds_what_is_copied_and_no_more() -> None:
    admitted = {
        line.removeprefix("!")
        for line in (PROJECT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = {
        source
        for name, argument in stage(TEXT, "build")
        if name == "COPY"
        for source in argument.split()[:-1]
    }
    assert admitted == copied | {"deploy"}


def _read(path: str) -> Any:
    return json.loads(Path(path).read_text())


class Image:
    """The image, unpacked into a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config: dict[str, Any] = json.loads(Path(f"{root}.json").read_text())["OCIv1"][
            "config"
        ]

    def command(self, *command: str, files: Path | None = None) -> list[str]:
        """Return a command line that runs a command as a container does.

        Args:
            command: The command.
            files: A folder that is mounted at /mnt; /tmp can then be written.
        """
        root = shlex.quote(str(self.root))
        mounts = [
            f"mount --bind {root} {root}",
            f"mount -o remount,bind,ro {root}",
            f"mount --rbind /dev {root}/dev",
            f"mount --bind /proc {root}/proc",
        ]
        if files is not None:
            mounts.append(f"mount --bind {shlex.quote(str(files))} {root}/mnt")
            mounts.append(f"mount -t tmpfs -o mode=1777 tmpfs {root}/tmp")  # noqa: S108 - the image's
        run = ["chroot", f"--userspec={self.config['User']}", str(self.root), "env", "-i"]
        script = " && ".join([*mounts, f"exec {shlex.join([*run, *self.config['Env'], *command])}"])
        return ["unshare", "--mount", "bash", "-ec", script]

    def output(self, *command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*command), capture_output=True, text=True, timeout=60, check=False
        )

    @contextmanager
    def serving(self, *arguments: str, files: Path | None = None) -> Iterator[str]:
        """Run a server as the image starts it; return its address."""
        command = [*self.config["Entrypoint"], *self.config["Cmd"]]
        with (
            tempfile.TemporaryFile("w+") as log,
            subprocess.Popen(
                self.command(*command, "--listen", "127.0.0.1:0", *arguments, files=files),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            ) as process,
        ):
            assert process.stdout is not None
            address = process.stdout.readline().rpartition(" ")[2].strip()
            try:
                log.seek(0)
                assert address, log.read()
                yield address
            finally:
                process.send_signal(signal.SIGTERM)
                assert process.wait(timeout=60) == 0


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    root = tmp_path_factory.mktemp("image") / "root"
    # The image's user must be able to reach it.
    for folder in (root.parent, root.parent.parent, root.parent.parent.parent):
        folder.chmod(0o755)
    built = subprocess.run(
        [PROJECT / "tests/image/build", root], capture_output=True, text=True, check=False
    )
    if built.returncode == IMPOSSIBLE:
        pytest.skip(built.stderr.strip())
    assert built.returncode == 0, built.stdout + built.stderr
    print(built.stdout)
    return Image(root)


def test_the_configuration_is_that_of_the_dockerfile(image: Image) -> None:
    assert image.config["User"] == only("USER")
    assert image.config["Entrypoint"] == json.loads(only("ENTRYPOINT"))
    assert image.config["Cmd"] == json.loads(only("CMD"))


@pytest.mark.parametrize("script", ["queuegate", "queuegate-server", "kubectl-queuegate"])
def test_scripts_run(script: str, image: Image) -> None:
    done = image.output(script, "--version")
    assert queuegate.__version__ in done.stdout, done.stderr


def test_it_serves_and_is_healthy(image: Image) -> None:
    health = json.loads(only("HEALTHCHECK").partition("CMD ")[2])
    with image.serving() as address:
        # As Docker does: a busy machine may need longer than the second that a probe has.
        asked = ["env", f"QUEUEGATE_ADDRESS={address}", *health]
        eventually(lambda: image.output(*asked).returncode, 0)


def test_its_user_cannot_write(image: Image) -> None:
    for folder in ("", "/tmp", "/opt/queuegate", "/var/tmp"):  # noqa: S108 - the image's
        done = image.output("sh", "-c", f"touch {folder}/file")
        assert "Read-only file system" in done.stderr, folder
    assert image.output("id", "-u").stdout == "65532\n"


def test_it_asks_a_directory(image: Image, tmp_path: Path) -> None:
    """The driver for LDAP is there, with its libraries and SASL's module for Kerberos."""
    ldif = "".join(
        [
            ldap_entries.base(),
            ldap_entries.person("sue"),
            ldap_entries.group("analysts", ldap_entries.dn("sue")),
        ]
    )
    files = tmp_path / "files"
    files.mkdir()
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(files / "ca.pem"))
    (files / "password").write_text(PASSWORD)
    (files / "queues.yaml").write_text(QUEUES)
    with running_slapd(tmp_path / "slapd", authority, ldif) as slapd:
        resolvers = {"corp": {**LDAP, "urls": [slapd.tls_url]}}
        (files / "settings.yaml").write_text(json.dumps(SETTINGS | {"resolvers": resolvers}))
        with (
            image.serving("--config", "/mnt/settings.yaml", files=files) as address,
            queuegate.Client(address, timeout=60) as client,
        ):
            assert client.check("sue", "root.analytics").reason is queuegate.Reason.GROUP
    found = image.output("sh", "-c", "ls /usr/lib/*/sasl2/libgssapiv2.so")
    assert found.returncode == 0, found.stderr


def test_the_native_transport_is_there(image: Image, tmp_path: Path) -> None:
    with (
        image.serving("--set", "transport=native", files=tmp_path) as address,
        queuegate.Client(address, timeout=60) as client,
    ):
        assert client.check_health()


def test_sbom_lists_what_is_installed_and_the_base(image: Image) -> None:
    found = sbom.read((image.root / "opt/queuegate/sbom.cdx.json").read_text())
    [packages] = (image.root / "opt/queuegate/lib").glob("python*/site-packages")
    assert found.packages == sbom.installed(packages)
    components = {each["bom-ref"]: each for each in found.document["components"]}
    pinned = hashes(PROJECT / "deploy" / "image-requirements.txt")
    built = {
        name
        for name, version in found.packages.items()
        if sbom.sha256(components[f"{name}@{version}"]) not in pinned.get(name, ())
    }
    # All others are files of PyPI.
    assert built == {"queuegate", "python-ldap"}
    python = components["base-image"]
    assert f"{python['name']}:{python['version']}@sha256:{sbom.sha256(python)}" == base()
    debian = {each["name"] for name, each in components.items() if name.startswith("debian/")}
    assert {"libc6", "libldap2", "libsasl2-modules-gssapi-mit"} <= debian
    assert "gcc" not in debian
    assert found.reachable() == {*components, "image"}


def test_make_image_takes_the_sbom_out_of_the_tagged_image(image: Image) -> None:
    # Of `make verify` itself, its own options would count.
    outer = {"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL"}
    recipe = subprocess.run(
        ["make", "--dry-run", "image", "ENGINE=engine", "IMAGE=tag"],
        env={name: value for name, value in os.environ.items() if name not in outer},
        cwd=PROJECT, capture_output=True, text=True, check=True,
    ).stdout.replace("\\\n", " ")  # fmt: skip
    build, _, run = recipe.splitlines()
    assert build == "engine build --tag tag ."
    words = shlex.split(run)
    entrypoint, path, tag = (words.index(word) for word in ("--entrypoint", ">", "tag"))
    assert words[:3] == ["engine", "run", "--rm"]
    assert words[path + 1 :] == ["dist/image.cdx.json"]
    done = image.output(words[entrypoint + 1], *words[tag + 1 : path])
    assert done.stdout == (image.root / "opt/queuegate/sbom.cdx.json").read_text()


def test_bytecode_is_compiled_and_no_installer_is_left(image: Image) -> None:
    [packages] = (image.root / "opt/queuegate/lib").glob("python*/site-packages")
    assert list((packages / "queuegate_server/__pycache__").glob("engine.*.pyc"))
    assert not list(packages.glob("pip*"))
    assert not list(packages.glob("setuptools*"))
    assert not list(packages.glob("hatchling*"))
    assert image.output("sh", "-c", "command -v gcc").returncode != 0

# The digest is that of the index of all platforms. To renew both, take the newest tag and its digest
# from `docker buildx imagetools inspect python:3.13-slim-trixie`, or let Renovate or Dependabot do it.
FROM python:3.13.16-slim-trixie@sha256:bf44cdfcb76cd3b41e879bc058fc37ec5872002ccfde7fcb765e218cde0cd79c AS python
# What the LDAP driver loads, and SASL's module for Kerberos. These packages, those that they need,
# and the compiler below are all that floats: PyPI's files are pinned by their hashes, but Debian's
# mirrors keep only the newest build of a release, so a full version would soon be gone. Within a
# series Debian changes a version for security and grave faults only. The SBOM has what was installed.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        'libldap2=2.6.*' 'libsasl2-2=2.1.*' 'libsasl2-modules-gssapi-mit=2.1.*' \
    && rm -rf /var/lib/apt/lists/*
# The base image carries no bytecode of the standard library; with a read-only root
# filesystem it would be compiled again at every start.
RUN python -m compileall -q -x '/site-packages/' /usr/local/lib/python3.13


FROM python AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
WORKDIR /src

# The LDAP driver has no wheels and is compiled here. Nothing of the compiler reaches the last stage.
RUN dpkg-query --show > debian-packages \
    && apt-get update \
    && apt-get install --yes --no-install-recommends \
        'gcc=4:14.*' 'libc6-dev=2.41-*' 'libldap-dev=2.6.*' 'libsasl2-dev=2.1.*' \
    && rm -rf /var/lib/apt/lists/*
# Neither environment gets a pip of its own: the image's fills them, and nothing
# that can install software reaches the final stage with them.
COPY deploy/image-requirements.txt deploy/build-requirements.txt deploy/sbom-requirements.txt deploy/
RUN python -m venv --without-pip /opt/queuegate \
    && python -m venv --without-pip /opt/build \
    && pip --python /opt/build install --only-binary :all: \
        --require-hashes --requirement deploy/build-requirements.txt \
        --requirement deploy/sbom-requirements.txt \
    && pip --python /opt/build wheel --only-binary :all: --no-binary python-ldap \
        --no-build-isolation --wheel-dir wheels \
        --require-hashes --requirement deploy/image-requirements.txt

# Everything is here by now: from this point on nothing is fetched.
COPY Dockerfile pyproject.toml README.md LICENSE ./
COPY deploy/sbom.py deploy/
COPY client client
COPY server server
RUN pip --python /opt/build wheel --no-index --no-deps --no-build-isolation --wheel-dir wheels . \
    && pip --python /opt/queuegate install --no-compile --no-index --no-deps \
        --report=installed.json wheels/*.whl \
    && /opt/build/bin/python deploy/sbom.py --image Dockerfile debian-packages installed.json \
        > /opt/queuegate/sbom.cdx.json \
    && python -m compileall -q --invalidation-mode unchecked-hash /opt/queuegate/lib


FROM python
COPY --from=build /opt/queuegate /opt/queuegate
# Loopback is what a sidecar needs; to be reached from other pods or the host, mount a
# certificate and set `listen` with `tls` (see deploy/fleet).
ENV PATH=/opt/queuegate/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 50051
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 \
    CMD ["queuegate", "health"]
ENTRYPOINT ["queuegate-server"]
CMD ["serve"]

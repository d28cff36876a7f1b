# The base image carries no bytecode of the standard library; with a read-only root
# filesystem it would be compiled again at every start.
FROM python:3.13.11-slim-trixie AS python
RUN python -m compileall -q -x '/site-packages/' /usr/local/lib/python3.13


FROM python AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
WORKDIR /src

# Neither environment gets a pip of its own: the image's fills them, and nothing
# that can install software reaches the final stage with them.
COPY deploy/requirements.txt deploy/build-requirements.txt deploy/
RUN python -m venv --without-pip /opt/queuegate \
    && python -m venv --without-pip /opt/build \
    && pip --python /opt/queuegate install --no-compile --only-binary :all: \
        --require-hashes --requirement deploy/requirements.txt \
    && pip --python /opt/build install --only-binary :all: \
        --require-hashes --requirement deploy/build-requirements.txt

# Everything is here by now: from this point on nothing is fetched.
COPY pyproject.toml README.md LICENSE ./
COPY client client
COPY server server
RUN pip --python /opt/build wheel --no-index --no-deps --no-build-isolation --wheel-dir dist . \
    && pip --python /opt/queuegate install --no-compile --no-index --no-deps dist/*.whl \
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

# Two images from one file: `docker build --target replica .` without Java, `docker build --target nemesis .` with it.
# BASE is any Debian-like image with apt; where no image registry can be reached, it may be one that was built locally.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/highwater
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY proto proto
COPY replica replica
COPY nemesis nemesis

FROM build AS build-replica
RUN /opt/highwater/bin/pip install --no-cache-dir '.[uvloop]'

FROM build AS build-nemesis
RUN /opt/highwater/bin/pip install --no-cache-dir '.[report,spark,uvloop]'

FROM ${BASE} AS nemesis
RUN apt-get update \
    && apt-get install --yes --no-install-recommends default-jre-headless procps python3 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build-nemesis /opt/highwater /opt/highwater
ENV PATH=/opt/highwater/bin:${PATH} PYTHONUNBUFFERED=1
RUN install --directory --owner=10001 --group=10001 /var/lib/highwater
WORKDIR /var/lib/highwater
USER 10001:10001
VOLUME ["/var/lib/highwater"]
ENTRYPOINT ["nemesis"]
CMD ["--help"]

FROM ${BASE} AS replica
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build-replica /opt/highwater /opt/highwater
ENV PATH=/opt/highwater/bin:${PATH} PYTHONUNBUFFERED=1
# Where it listens and keeps its log; the health check below asks REPLICA_ADDRESS.
ENV REPLICA_LISTEN=0.0.0.0:9092 REPLICA_ADDRESS=127.0.0.1:9092 REPLICA_DATA_DIR=/var/lib/highwater/data
EXPOSE 9092
# The volume is made with its owner, because a replica that runs as nobody in particular could not take it over.
RUN install --directory --owner=10001 --group=10001 /var/lib/highwater
WORKDIR /var/lib/highwater
USER 10001:10001
VOLUME ["/var/lib/highwater"]
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=2s --start-period=10s --retries=3 CMD ["replica", "health"]
ENTRYPOINT ["replica"]
CMD ["--help"]

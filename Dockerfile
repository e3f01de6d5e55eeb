# Two images from one file: `docker build --target replica .` without Java, `docker build --target nemesis .` with it.
# BASE is any Debian-like image with apt; where no image registry can be reached, it may be one that was built locally:
# `make images` does that. docs/containers.md says more.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS python
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
RUN python3 -m venv /opt/highwater
ENV PATH=/opt/highwater/bin:${PATH} PYTHONUNBUFFERED=1

# What others wrote is installed before what we wrote is copied, so that a change of ours repeats the last and shortest
# steps only. Which packages those are, with the extras that each image has, is read from the project.
FROM python AS needed
COPY pyproject.toml /src/
RUN printf '%s\n' \
        'import sys, tomllib' \
        'project = tomllib.load(open("/src/pyproject.toml", "rb"))["project"]' \
        'lists = project["dependencies"], *(project["optional-dependencies"][name] for name in sys.argv[1:])' \
        'print(*sum(lists, []), sep="\n")' > /src/packages-of.py \
    && mkdir /needed \
    && python /src/packages-of.py uvloop > /needed/replica.txt \
    && python /src/packages-of.py uvloop report spark > /needed/nemesis.txt

FROM python AS packages
COPY --from=needed /needed/replica.txt /needed/
RUN pip install --no-cache-dir --requirement /needed/replica.txt

FROM packages AS wheel
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY proto proto
COPY replica replica
COPY nemesis nemesis
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM packages AS replica
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir --no-deps /wheels/*.whl
# Where it listens and keeps its log; the health check below asks REPLICA_ADDRESS.
ENV REPLICA_LISTEN=0.0.0.0:9092 REPLICA_ADDRESS=127.0.0.1:9092 REPLICA_DATA_DIR=/var/lib/highwater/data
EXPOSE 9092
# The volume is made with its owner, because a replica that runs as nobody in particular could not take it over.
RUN install --directory --owner=10001 --group=10001 /var/lib/highwater
WORKDIR /var/lib/highwater
USER 10001:10001
VOLUME ["/var/lib/highwater"]
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=2s --start-period=10s --retries=3 CMD ["replica", "health", "--live"]
ENTRYPOINT ["replica"]
CMD ["--help"]

FROM packages AS nemesis
# Java's package makes links in a folder that a base image without manuals lacks.
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install --yes --no-install-recommends default-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY --from=needed /needed/nemesis.txt /needed/
RUN pip install --no-cache-dir --requirement /needed/nemesis.txt
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir --no-deps /wheels/*.whl
# Spark asks who runs it, and where that user is at home.
RUN install --directory --owner=10001 --group=10001 /var/lib/highwater \
    && echo 'highwater:x:10001:10001::/var/lib/highwater:/usr/sbin/nologin' >> /etc/passwd
WORKDIR /var/lib/highwater
USER 10001:10001
VOLUME ["/var/lib/highwater"]
ENTRYPOINT ["nemesis"]
CMD ["--help"]

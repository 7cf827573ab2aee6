# hvdprof with Horovod for CPUs: the steps of `make bench`, a layer each.
# Built and run by buildah, not by docker so far: docs/start/install.md.
#   docker build -t hvdprof . && docker run --rm --shm-size=1g -v "$PWD/runs:/data/runs" hvdprof bench
ARG BASE=debian:12-slim
FROM ${BASE}
# What pip downloads stays in no layer.
ENV PIP_NO_CACHE_DIR=1
# libnss-myhostname: Gloo ends where the container's own name does not resolve.
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-venv python3-dev g++ make openssh-client libnss-myhostname \
 && rm -rf /var/lib/apt/lists/*
COPY . /opt/hvdprof
WORKDIR /opt/hvdprof
RUN make .venv/.hvdprof-pip
RUN make .venv/.hvdprof-core
RUN make .venv/.hvdprof-horovod
ENV PATH=/opt/hvdprof/.venv/bin:$PATH
WORKDIR /data
ENTRYPOINT ["hvdprof"]
CMD ["bench", "--preset", "quick"]

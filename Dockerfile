# The recorder alone, for docker-compose.yml: a database of its own is not in it.
# Pin both to a digest that you have looked at, as docs/security.md describes: IMAGE:TAG@sha256:…
ARG BUILD_IMAGE=node:24-bookworm-slim
ARG RUNTIME_IMAGE=gcr.io/distroless/nodejs24-debian12:nonroot

FROM ${BUILD_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json ./
# Without scripts, and without the embedded PostgreSQL, which is optional and most of the size.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json vite.config.ts vite.program.config.ts ./
COPY src src
COPY migrations migrations
COPY bench bench
COPY scripts scripts
# Of it the build takes what benches and worlds use.
COPY test test
RUN npm run --silent build \
  && npm prune --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund \
  && rm -rf dist/bench dist/migrations dist/scripts dist/src dist/test \
  && mkdir /data

FROM ${RUNTIME_IMAGE}
WORKDIR /app
ENV NODE_ENV=production
# glibc keeps what threads have freed for each of them; with one store for all the recorder takes a fifth less memory.
ENV MALLOC_ARENA_MAX=1
# Without bounds it also keeps room for the largest responses; with them the system has it back: another tenth less.
ENV MALLOC_MMAP_THRESHOLD_=16384 MALLOC_TRIM_THRESHOLD_=131072
COPY --from=build /build/package.json ./
COPY --from=build /build/node_modules node_modules
COPY --from=build /build/dist dist
COPY config/demo.yaml config/compose/recorder.yaml config/
# The image's user is nonroot (65532). It writes nowhere but below /data and /tmp.
COPY --from=build --chown=65532:65532 /data /data
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["/nodejs/bin/node", "dist/program/main.js"]
CMD ["start", "--config", "config/recorder.yaml"]

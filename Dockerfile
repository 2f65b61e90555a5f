# The recorder alone, for docker-compose.yml: a database of its own is not in it.
# Pin both to a digest that you have looked at, as docs/security.md describes: IMAGE:TAG@sha256:…
ARG BUILD_IMAGE=node:24-bookworm-slim
ARG RUNTIME_IMAGE=gcr.io/distroless/nodejs24-debian12:nonroot

# What is built is JavaScript, the same on every platform: so it is built on the builder's own.
FROM --platform=$BUILDPLATFORM ${BUILD_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json LICENSE ./
# Without scripts. The embedded PostgreSQL is most of the size, and stays in this stage.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json plainTimes.d.ts vite.config.ts vite.program.config.ts ./
COPY src src
COPY migrations migrations
COPY bench bench
COPY scripts scripts
# Of it the build takes what benches and worlds use.
COPY test test
RUN npm run --silent build \
  && node scripts/copyPackages.mjs /runtime/node_modules pino-pretty \
  && mkdir -p /runtime/dist /runtime/migrations /data \
  && cp -r dist/page dist/program /runtime/dist \
  && cp -r migrations/functions /runtime/migrations \
  && cp package.json LICENSE /runtime

FROM ${RUNTIME_IMAGE}
WORKDIR /app
ENV NODE_ENV=production
# glibc keeps what threads have freed for each of them; with one store for all the recorder takes a fifth less memory.
ENV MALLOC_ARENA_MAX=1
# Without bounds it also keeps room for the largest responses; with them the system has it back: another tenth less.
ENV MALLOC_MMAP_THRESHOLD_=16384 MALLOC_TRIM_THRESHOLD_=131072
LABEL org.opencontainers.image.title="market-recorder" \
  org.opencontainers.image.description="Records one exchange's public market data into PostgreSQL or TimescaleDB" \
  org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /runtime ./
COPY config/demo.yaml config/compose/recorder.yaml config/
COPY config/compose/refuse_queuing.sql config/compose/
# The image's user is nonroot (65532). It writes nowhere but below /data and /tmp.
COPY --from=build --chown=65532:65532 /data /data
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --retries=3 --start-period=2m CMD ["/nodejs/bin/node", "--eval", "\
  process.exitCode = 1; \
  require('http').get('http://127.0.0.1:8080/healthz', \
    (response) => response.statusCode === 200 && process.exit(0)).on('error', () => {})"]
ENTRYPOINT ["/nodejs/bin/node", "dist/program/main.js"]
CMD ["start", "--wait", "--config", "config/recorder.yaml"]

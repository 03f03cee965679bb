# One static binary and nothing else. The classic builder suffices: Compose 1.29 knows no other.
FROM golang:1.26-bookworm AS build
# Standard Go settings, for those behind a module mirror: docker build --build-arg GOPROXY=...
ARG GOPROXY
ARG GOSUMDB
ARG GOFLAGS
WORKDIR /src

# The modules change rarely; this layer stays as long as go.mod and go.sum do.
COPY go.mod go.sum ./
RUN go mod download

# The commit for 'shop version' and build_info; scripts/compose passes it, since the build sees no .git.
ARG GIT_COMMIT
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags nomsgpack -ldflags="-s -w -X main.commit=$GIT_COMMIT" -o /shop ./cmd/shop

# Nothing but the program and the certificates of the public CAs: the one image to fetch is golang's, from a hub that mirrors serve.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /shop /shop
USER 65532:65532
EXPOSE 8080
# No shell and no curl here: the binary asks itself.
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=12 \
    CMD ["/shop", "probe", "http://127.0.0.1:8080/readyz"]
ENTRYPOINT ["/shop"]
CMD ["serve"]

# build  the tributary binary, bin/tributary
# run    the example fleet with backends and a real Envoy; Ctrl-C ends it
# test   everything that CI checks; fetches and builds what the tests need
# soak   the long proofs: random histories for SOAK each
# bench  the core's memory and speed, then a comparison with the floor and istiod
# lint   golangci-lint, built from its module on the first use
.PHONY: build run test soak bench lint parts

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
SOAK    ?= 10m

build:
	$(GO) build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/tributary ./cmd/tributary

run: build
	$(GO) run ./examples/demo

parts:
	$(GO) run ./test/parts/fetch envoy chromium crds kubernetes istiod istioctl tributary

test: parts
	$(GO) vet ./...
	$(GO) test -timeout 30m ./...

soak:
	$(GO) test -timeout 0 -run 'Soak|History' ./aggregate -soak $(SOAK)
	$(GO) test -timeout 0 -run 'Soak' ./clusters -soak $(SOAK)

bench:
	$(GO) run ./internal/corebench
	$(GO) run ./test/bench

lint:
	$(GO) tool -modfile=tools/go.mod golangci-lint run ./...

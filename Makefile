# lastitem: make alone prints the first targets, make help all. Any GNU make 4 and a POSIX sh; Go, and for some targets Docker.

SHELL := /bin/sh
.DEFAULT_GOAL := first
MAKEFLAGS += --no-print-directory

# All compile in one way, so that the cache has each package once. (dist and the image say theirs, with -trimpath; -race needs cgo.)
export CGO_ENABLED ?= 0
export GOFLAGS += -buildvcs=false -tags=nomsgpack

# demo_flags come from variables on the command line: make demo MODE=mutex REPLICAS=1
demo_flags = $(if $(MODE),--mode '$(MODE)') $(if $(ALL),--strict) $(if $(REPLICAS),--replicas '$(REPLICAS)') \
	$(if $(BACKEND),--backend '$(BACKEND)') $(if $(L),--lang '$(L)')
up_flags = --port '$(or $(PORT),8080)' --env ./out/up.env $(if $(REPLICAS),--replicas '$(REPLICAS)') $(if $(BACKEND),--backend '$(BACKEND)') \
	$(if $(L),--lang '$(L)')
lab_flags = $(if $(MODE),--mode '$(MODE)') $(if $(STORE),--store '$(STORE)') $(if $(FAULT),--fault '$(FAULT)') $(if $(ALL),--all --pairs) $(if $(BEYOND),--beyond) \
	$(if $(L),--lang '$(L)')

# Debian keeps servers in directories that a user's PATH lacks; the tests shall find them.
test_path = PATH="$$PATH:/usr/local/sbin:/usr/sbin:/sbin"
packages ?= ./...
go_dirs = $(filter-out bin/ out/ dist/,$(wildcard */))

##@ Try it

.PHONY: play
play: build ## the console in the browser, with a private stack: PORT=8090 REPLICAS=3 BACKEND=... L=zh
	@exec bin/shop play $(if $(PORT),--port '$(PORT)') $(if $(REPLICAS),--replicas '$(REPLICAS)') $(if $(BACKEND),--backend '$(BACKEND)') \
	$(if $(L),--lang '$(L)')

.PHONY: demo
demo: build ## every mode on a private stack, judged: MODE=mutex REPLICAS=1 BACKEND=embedded|local|auto ALL=1 L=zh
	@bin/shop demo $(demo_flags) || { code=$$?; [ $$code = 3 ] && [ -z '$(ALL)' ] || exit $$code; }
# The program's exit code is 0 (every claim confirmed), 1 (one contradicted) or 3 (undecided). A busy machine may leave a
# claim undecided: its row says which command decides it, and that is no error here, except with ALL=1. make prints the
# others as "Error 1" and itself exits with 2; call bin/shop demo where the code matters.

.PHONY: lab
lab: build ## every point at which a fault can strike, on real servers: MODE=lua-lock STORE=sql FAULT=pause ALL=1 BEYOND=1 L=zh
	@$(test_path) exec bin/shop lab $(lab_flags)

.PHONY: up-local
up-local: build ## the same stack on a port, until Ctrl-C; other shells source out/up.env: PORT=8080 REPLICAS=3 BACKEND=... L=zh
	@exec bin/shop up $(up_flags)

.PHONY: write-ups
write-ups: build ## the numbers of well-known write-ups, measured here and printed beside theirs, in two to three minutes: L=zh
	@$(test_path) exec bin/shop write-ups $(if $(L),--lang '$(L)')

.PHONY: examples
examples: build ## the fault lab on services of others: redis-py and psycopg with Flask, Redisson, redsync; skips those without a runtime here: only=redsync; by name only, half an hour each: only=vendure, django-oscar, spring
	@scripts/examples $(only)

##@ With Docker

.PHONY: up
up: ## build and start nginx, three replicas, Redis and MySQL; wait until ready: PROFILES='etcd kafka' or all, or cluster or sentinel
	@PROFILES='$(PROFILES)' scripts/compose up

.PHONY: compose-demo
compose-demo: build ## the comparison, driven from outside through the nginx of make up: MODE=... ALL=1 L=zh
	@exec scripts/compose demo $(if $(MODE),--mode '$(MODE)') $(if $(ALL),--strict) $(if $(L),--lang '$(L)')

.PHONY: logs
logs: ## follow the logs of make up
	@exec scripts/compose logs -f --tail=50

.PHONY: down
down: ## stop make up, and remove its data
	@scripts/compose down

##@ Work on it

.PHONY: build
build: ## bin/shop
	@echo 'building bin/shop (the first time: a minute or two)'
	@go build -ldflags "-s -w -X main.commit=$$(scripts/commit)" -o bin/shop ./cmd/shop

.PHONY: quick
quick: ## the tests that need nothing but Go, under 3 minutes: packages=./internal/... test_flags='-run Lock'
	@scripts/test quick $(test_flags) $(packages)

.PHONY: test
test: build ## install what is missing, then the tests on private servers, under 8 minutes: packages=./internal/... test_flags='-run Lock'
	@scripts/deps test
	@scripts/test test $(test_flags) $(packages)

.PHONY: test-all
test-all: build ## what make test did not run, under 22 minutes: slow tests, the race detector, the whole lab, examples, rolling
	@scripts/deps all
	@$(test_path) scripts/test-more all $(test_flags)

.PHONY: test-engines
test-engines: build ## by hand and at night: newer servers, fail-overs of engines, a real Kafka, Redisson and its example in Java
	@scripts/deps engines
	@$(test_path) scripts/test-more engines $(test_flags)

.PHONY: test-newer
test-newer: build ## the tests of locks and stores, and a demo, on MySQL 9, Redis 8 and Valkey 9, which it fetches once: under 5 minutes
	@scripts/test-newer

.PHONY: rolling
rolling: build ## replace three replicas of the last release under load; fails if a request is lost: OLD=commit COMPOSE=1
	@PATH="$$PATH:/usr/local/sbin:/usr/sbin:/sbin" scripts/rolling $(if $(COMPOSE),--compose) '$(OLD)'

.PHONY: reads
reads: build ## measure what eight readers of many orders, an audit, and a sweep of as many expired holds take: orders=1000000
	@export SHOP_TEST_TIER=all READS_TEST_ORDERS='$(or $(orders),1000000)' READS_TEST_HOLDS='$(or $(orders),1000000)'; \
	$(test_path); export PATH; go test -run '^TestReadersAreCheap$$' -count 1 -v -timeout 30m ./cmd/shop && \
	bin/shop with-stack -- go test -run '^TestSweepIsCheap$$' -count 1 -v -timeout 60m ./internal/store/sqldb

.PHONY: console-cost
console-cost: ## measure what the console's page costs a browser, and what watching costs a run: rounds=25, some four minutes
	@export SHOP_TEST_CONSOLE_COST='$(or $(rounds),25)'; $(test_path); export PATH; \
	go test -run '^TestConsoleCost$$' -count 1 -v -timeout 30m ./cmd/shop

.PHONY: lab-mutants
lab-mutants: ## whether the lab, or a test, finds defects that are put into the modes: a binary for each, two at a time
	@$(test_path) go test -tags mutants,nomsgpack -count=1 -timeout 30m -parallel 2 -run '^TestMutants$$' -v ./cmd/shop

.PHONY: habits
habits: ## services with the habits of real shops, right ones and wrong ones: load test and lab must say what is right of each, under ten minutes
	@export SHOP_TEST_TIER=all; $(test_path); export PATH; \
	go test -count=1 -run '^Test(LabServe)?Habits$$' ./loadtest ./cmd/shop

.PHONY: engine-mutants
engine-mutants: ## whether the lock engine's tests find defects that are put into it: a binary for each, some twenty minutes
	@$(test_path) go test -tags mutants,nomsgpack -count=1 -timeout 30m -run '^TestMutantsAreFound$$' -v ./internal/lock/handoff

.PHONY: track-record
track-record: build ## run every command of docs/track-record.md: under five minutes
	@export SHOP_TEST_TRACK_RECORD=all; $(test_path); export PATH; \
	exec bin/shop with-stack -- go test -count=1 -timeout 20m -v -run '^TestTrackRecordRuns$$' ./cmd/shop

.PHONY: soak
soak: build ## the lock engine under random faults, with -race: cuts in one process, and several processes on Redis, Redis 8, Valkey 9 and clusters; prints the seeds: minutes=30 seed=...
	@$(test_path); export PATH; exec scripts/soak '$(or $(minutes),10)' '$(seed)'

.PHONY: check
check: fmt vet lint arrows fresh ## what needs no server: format, vet, lint, import arrows, generated files

.PHONY: sec
sec: ## govulncheck, in a pinned version; says loudly if its database cannot be reached. gosec is part of lint
	@scripts/sec

.PHONY: fmt
fmt: ## fail on files that gofmt would change
	@echo 'check: gofmt'; files=$$(gofmt -s -l $(go_dirs)); \
	if [ -n "$$files" ]; then echo "not formatted; gofmt -s -w these:" >&2; echo "$$files" >&2; exit 1; fi

.PHONY: vet
vet: ## go vet for this system and for macOS (the first run compiles for macOS, which takes minutes)
	@echo 'check: go vet'; go vet ./... && go vet -C bench ./... && GOOS=darwin go vet ./...

.PHONY: lint
lint: ## golangci-lint, in its pinned version, gosec among its linters
	@echo 'check: golangci-lint'; scripts/lint

.PHONY: arrows
arrows: ## who may import whom, and who may dial
	@echo 'check: import arrows'; go test ./internal

.PHONY: fresh
fresh: ## fail on generated files that are stale
	@echo 'check: generated files'; go run ./internal/stock/newmode -check && scripts/fresh

.PHONY: generate
generate: ## write the generated files anew
	@go run ./internal/stock/newmode -check
	go generate ./...

.PHONY: traces
traces: ## write the traces in the modes' pages anew, as real servers show them
	@export SHOP_TEST_TIER=all; $(test_path); export PATH; \
	go test -count=1 -run '^TestTraces$$|^TestTraceOfAHeldLock$$' ./cmd/shop -update && go generate ./cmd/shop

.PHONY: pictures
pictures: ## take the pictures of docs/pictures anew, from the console's page in Chromium
	@mkdir -p docs/pictures; export SHOP_TEST_PICTURES="$$PWD/docs/pictures"; $(test_path); export PATH; \
	go test -run '^TestPictures$$' -count 1 ./cmd/shop

.PHONY: bench
bench: build ## Go benchmarks against private servers: bench=Lock count=6 packages=./internal/lock/handoff
	@$(test_path); export PATH; exec bin/shop with-stack -- \
		go test -run '^$$' -bench '$(or $(bench),.)' -benchmem -count $(or $(count),1) -timeout 60m $(packages)

.PHONY: bench-lock
bench-lock: ## our locks beside other libraries', with Java and Maven also Redisson, 12 minutes: bench_flags='--scenario hot-64x4 --rounds 5', bench_flags=--list
	@echo 'building bin/bench-lock (the first time: a minute or two)'
	@go build -C bench -ldflags "-X main.commit=$$(scripts/commit)" \
		-o ../bin/bench-lock ./lock
	@if command -v java >/dev/null && command -v mvn >/dev/null; then mvn -q -B -f bench/lock/redisson/pom.xml package || \
		echo 'bench-lock: Maven could not build the worker of Redisson' >&2; fi
	@$(test_path); export PATH; \
	exec bin/bench-lock --json out/bench-lock.json --svg out/bench-lock.svg --redisson bench/lock/redisson $(bench_flags)

.PHONY: bench-tricks
bench-tricks: build ## what each optimization of the lock engine and its batcher saves, by benchstat, five minutes: rounds=10
	@$(test_path); export PATH; exec bin/shop with-stack -- scripts/bench-tricks $(or $(rounds),10)

.PHONY: bench-versus
bench-versus: ## the locks, or with modes=queue,redis-lua the modes, of this tree and another commit, in turn: commit=HEAD~ rounds=10 bench_flags='--scenario hot-64x4'
	@$(test_path); export PATH; export MODES='$(modes)'; exec scripts/bench-versus $(or $(commit),HEAD~) $(or $(rounds),10) $(bench_flags)

.PHONY: bench-modes
bench-modes: build ## every mode on durable servers, as a share of noop, a quarter of an hour: bench_flags='--mode noop,handoff,queue --repeat 5'
	@go build -C bench -o ../bin/bench-costs ./costs
	@rm -f out/bench-modes.json; $(test_path); export PATH; code=0; \
	bin/shop loadtest --durable --plan costs --mode all --out out/bench-modes.json $(bench_flags) || code=$$?; \
	case $$code in 0 | 1 | 3) exec bin/bench-costs out/bench-modes.json --svg out/bench-modes.svg ;; *) exit $$code ;; esac

.PHONY: dist
dist: ## archives of the program for Linux and macOS in dist/, with checksums and an SBOM; the same commit gives the same bytes, by the same Go
	@scripts/dist

.PHONY: clean
clean: ## remove bin/, out/ and dist/
	rm -rf bin out dist

# The targets that users need first.
firsts = demo play up down lab up-local test

.PHONY: first
first:
	@awk -v names='$(firsts)' 'BEGIN { FS = ":.*## "; n = split(names, want, " "); print "make TARGET [VARIABLE=value ...]\n" } \
		/^[a-z-]+:.*## / { said[$$1] = $$2 } \
		END { for (i = 1; i <= n; i++) printf "  %-10s %s\n", want[i], said[want[i]]; print "\nmake help lists all targets." }' $(firstword $(MAKEFILE_LIST))

.PHONY: help
help: ## all targets
	@awk 'BEGIN { FS = ":.*## "; print "make TARGET [VARIABLE=value ...]" } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

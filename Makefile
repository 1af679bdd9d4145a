# The commands of the README; Meson does everything else.
BUILD ?= build

.PHONY: all run server test test-thorough test-statistical test-peers test-sanitize test-tsan test-arm64 test-fuzz test-fresh test-all bench causes kernels python demo install package rpm image clean

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

# Also after the list of packages changes: an updated checkout needs what a new one needs.
$(BUILD)/build.ninja: tools/packages/build.txt
	@tools/install-packages build
	@meson setup $(if $(wildcard $@),--reconfigure) $(BUILD) >/dev/null

run: all                ## start `sonde up` as root and print the address of its page
	@tools/as-root $(BUILD)/sonde up

server: all             ## download the engine of `sonde server` into build/engine (167 MB), and start it
	@tools/install-engine $(BUILD)/engine
	@$(BUILD)/sonde server --data $(BUILD)/server-data

test:                   ## install the packages for tests and run the deterministic ones
	@tools/install-packages build test
	@tools/run-tests

test-thorough:          ## variants and rare conditions of what `make test` covers
	@tools/install-packages build test
	@tools/run-tests thorough

test-statistical:       ## tests that depend on random sampling, load or timing; the machine should be idle otherwise
	@tools/install-packages build test peers bench
	@tools/run-tests statistical

test-peers:             ## tests that compare with other projects' programs
	@tools/install-packages build test peers
	@tools/run-tests peers

test-sanitize test-tsan test-arm64 test-fuzz test-fresh: test-%:
	@tools/install-packages build test peers cross fresh rpm
	@tools/run-tests $*

test-all:               ## all tiers, one after another
	@tools/install-packages build test peers bench cross kernels fresh rpm
	@tools/run-tests all

bench: all              ## a table of costs, each row with a peer measured in the same run
	@tools/install-packages test bench
	@bench/run $(ROWS)

causes: all             ## does `sonde why` name the true cause of a request's latency? An evaluation on servers with injected causes, not a test
	@tools/install-packages build test causes
	@tools/as-root tests/causes/run $(ARGUMENTS)

kernels:                ## the BPF tests in QEMU on Debian's kernels 5.10, 6.1 and 6.12; the tests of libsonde's probes on arm64
	@tools/install-packages build test cross kernels
	@tools/run-tests kernels

python:                 ## the wheel of `import sonde`, for CPython 3.9 and later, in build/python
	@tools/install-packages python
	@tools/make-wheel $(BUILD)/python

demo: all               ## run a model server under load together with `sonde up`, until Ctrl-C
	@exec env BUILD=$(BUILD) examples/inference-server/demo

package:                ## Debian packages of the agent and of libsonde, in build/package
	@tools/install-packages build package
	@packaging/deb/build $(BUILD)/package

rpm:                    ## RPM packages of the same, in build/rpm, also built on Debian
	@tools/install-packages build rpm
	@packaging/rpm/build $(BUILD)/rpm

image: all              ## a container image of the agent as an OCI layout, in build/image
	@packaging/container/build $(BUILD)/sonde $(BUILD)/image

install: all
	@meson install -C $(BUILD)

clean:
	rm -rf $(BUILD)

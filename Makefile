# The commands of the README; everything else is Meson's business.
BUILD ?= build

.PHONY: all run test test-statistical test-peers test-sanitize test-tsan test-arm64 test-fuzz test-fresh test-all bench kernels python demo install clean

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

# Again when the list has grown: an old checkout that is updated needs what a new one needs.
$(BUILD)/build.ninja: tools/packages/build.txt
	@tools/install-packages build
	@meson setup $(if $(wildcard $@),--reconfigure) $(BUILD) >/dev/null

run: all                ## start `sonde up` as root and print the address of its page
	@tools/as-root $(BUILD)/sonde up

test:                   ## install what tests need and run those that no chance decides
	@tools/install-packages build test
	@tools/run-tests

test-statistical:       ## tests decided by random sampling, load or time; this machine should do nothing else
	@tools/install-packages build test peers
	@tools/run-tests statistical

test-peers:             ## tests that need other projects' programs
	@tools/install-packages build test peers
	@tools/run-tests peers

test-sanitize test-tsan test-arm64 test-fuzz test-fresh: test-%:
	@tools/install-packages build test peers cross fresh
	@tools/run-tests $*

test-all:               ## every tier, one after the other
	@tools/install-packages build test peers cross kernels fresh
	@tools/run-tests all

bench: all              ## a table of costs, each row beside a peer in the same run
	@tools/install-packages test bench
	@bench/run $(ROWS)

kernels:                ## the BPF tests in QEMU on Debian's 5.10, 6.1 and 6.12, those of libsonde's probes on arm64
	@tools/install-packages build test cross kernels
	@tools/run-tests kernels

python:                 ## the wheel of `import sonde`, for CPython 3.9 and later, in build/python
	@tools/install-packages python
	@tools/make-wheel $(BUILD)/python

demo: all               ## a model server under load beside `sonde up`, until Ctrl-C
	@exec env BUILD=$(BUILD) examples/inference-server/demo

install: all
	@meson install -C $(BUILD)

clean:
	rm -rf $(BUILD)

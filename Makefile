# The commands of the README; everything else is Meson's business.
BUILD ?= build

.PHONY: all run test bench kernels install clean format check

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

$(BUILD)/build.ninja:
	@tools/install-packages build
	@meson setup $(BUILD) >/dev/null

run: all                ## start `sonde up` as root and print the address of its page
	@tools/as-root $(BUILD)/sonde up

test:                   ## install what tests need and run them all
	@tools/install-packages build test kernels
	@tools/run-tests

bench: all              ## a table of costs, each row beside a peer in the same run
	@tools/install-packages test bench
	@bench/run $(ROWS)

kernels:                ## the BPF tests in QEMU on Debian's 5.10, 6.1 and 6.12
	@tools/install-packages build kernels
	@tests/kernels/run 5.10 6.1 6.12

install: all
	@meson install -C $(BUILD)

clean:
	rm -rf $(BUILD)

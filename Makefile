# SPDX-License-Identifier: GPL-2.0
#
# The front door. Everything is done by tools/xtask; tools/bootstrap gets it
# running on a bare Debian. The kernel's own build reads Kbuild, not this file.

# A variable goes to xtask as it was written: CMD='echo $HOME' needs no $$. An
# empty one is as good as none.
define pass
ifneq ($$(value $(1)),)
export RUST_PERF_$(1) = $$(value $(1))
endif
endef
$(foreach v,CMD SHARE QEMU_ARGS SMP APPEND TIMEOUT CPU KERNEL KDIR CLIPPY SUITE BLESS, \
	$(eval $(call pass,$(v))))

xtask := tools/bootstrap

.PHONY: module demo shell guest test bench rust-headers update clean clean-cache help

module demo shell guest test bench rust-headers update:
	@$(xtask) $@

# These two must work without a build root.
clean:
	rm -rf out target

clean-cache:
	rm -rf "$${XDG_CACHE_HOME:-$$HOME/.cache}/rust_perf"

help:
	@sed 's/^| \{0,1\}//;t;d' $(firstword $(MAKEFILE_LIST))

define usage
| make demo           prepare everything, boot, load the module, profile a real program
| make test           every test; the last line is "N passed, N failed". SUITE=name: one
|                     suite of guest tests; BLESS=1: make docs/generations.md what the
|                     tests find
| make shell          an interactive guest with the module loaded
| make guest CMD=…    run one command in a fresh guest. make exits with 2 when the command
|                     fails; tools/bootstrap guest --cmd '…' with the command's own status
| make module         build out/rust_perf.ko. KDIR=dir: for that kernel build tree;
|                     CLIPPY=1: with clippy
| make rust-headers   make the stock Debian kernel's build tree fit for Rust modules,
|                     any Rust modules, and print where it is and how to use it
| make bench          what the emulated PMU costs, in paired runs
| make update         look for a newer kernel in the package index
| make clean          remove what was built in this checkout
| make clean-cache    remove the cache: build root, kernel, QEMU
|
| For demo, shell, guest and test:
|   SHARE=dir         a host directory, at /mnt/share in the guest (default: out/share)
|   SMP=n             virtual CPUs (default: 2)
|   CPU=…             QEMU's -cpu
|   APPEND=…          more kernel command line
|   QEMU_ARGS=…       more arguments for QEMU
|   TIMEOUT=s         seconds until the guest is stopped (default: 600)
| For all: KERNEL=release, a Debian kernel such as 7.3.4+deb13-amd64
endef

# SPDX-License-Identifier: GPL-2.0
#
# The front door. tools/xtask does everything; tools/bootstrap starts it on a
# bare Debian. The kernel's own build reads Kbuild, not this file.

# xtask gets a variable as it was written: CMD='echo $HOME' needs no $$. An empty
# variable counts as not set.
define pass
ifneq ($$(value $(1)),)
export RUST_PERF_$(1) = $$(value $(1))
endif
endef
$(foreach v,CMD SHARE QEMU_ARGS SMP APPEND TIMEOUT CPU PMU QEMU PRIMARY KERNEL KDIR KERNEL_IMAGE DESTDIR INSTALL_MOD_PATH INSTALL_PATH CLIPPY EXAMPLE SUITE TEST PLANTED FUZZ SECONDS MUTANTS SHARD ALL ROUNDS GENERATIONS BEFORE FROM FUNCTIONS BOLT, \
	$(eval $(call pass,$(v))))

xtask := tools/bootstrap

.PHONY: module demo shell guest test test-in-tree test-counted planted planted-in-tree fuzz coverage mutants generations bench bench-ci rust-headers install uninstall deb tarball install-test kselftest-install event-lists update clean clean-cache help

module demo shell guest test test-in-tree test-counted planted planted-in-tree fuzz coverage mutants generations bench bench-ci rust-headers install uninstall deb tarball install-test kselftest-install event-lists update:
	@$(xtask) $@

# These two must work without a build root.
clean:
	rm -rf out target

clean-cache:
	rm -rf "$${XDG_CACHE_HOME:-$$HOME/.cache}/rust_perf"

help:
	@sed 's/^| \{0,1\}//;t;d' $(firstword $(MAKEFILE_LIST))

define usage
| make demo           prepare everything, boot a guest, profile a real program
|   PMU=off           by the clock, on a CPU without a PMU
|   QEMU=debian       likewise, on QEMU as Debian ships it; nothing of QEMU is built
|   BOLT=1            by branch records, and BOLT makes it take fewer branches: docs/branches.md
| make test           host tests, then guest tests on a set of machines. The last line is
|                     "N passed, N failed"
|   ALL=1             on all machines; some suites also on Debian's kernel of the series before and
|                     on KERNEL=debug; and the installation test
|   CI=true           as CI does: more suites, some also on KERNEL=debug, the tests of counted, and
|                     the installation test. No effect with ALL=1, SUITE= or TEST=
|   SUITE='GLOB…'     only these suites, such as 'hw-*'
|   TEST='GLOB…'      only these guest tests, such as 'sampling::*', on the default
|                     machine, or in the suites that SUITE= or ALL=1 names
| make test-in-tree   the tests with the kernel's own driver, arch/x86/events: docs/in-tree.md
|   KDIR=dir          build and test this kernel source (default: out/in-tree)
|   KERNEL_IMAGE=file test this bzImage
|   SUITE=, TEST=, ALL=1   as for make test
| make test-counted   the tests of counted: commands in guests; CI and ALL=1 run them, too
|   TEST=name         only those that have this in their names
| make planted        put each bug of tests/planted in a copy of the checkout, and run the test
|                     that catches it. The last line is "N caught, N missed"
|   PLANTED='GLOB…'   only these bugs, such as '0?-*'
| make planted-in-tree   reintroduce faults that the kernel's driver once had, and run the test that
|                     finds each. The last line is "N found, N missed"
|   PLANTED='GLOB…'   only these, such as '0?-*'
| make fuzz           have libFuzzer look for inputs on which a target of tests/fuzz fails
|   FUZZ='GLOB…'      only these targets, such as attributes
|   SECONDS=n         for so long each (default: 60)
| make coverage       measure which lines and branches the host tests reach. It prints a table,
|                     and out/coverage/html shows the lines
| make mutants        change the code in small ways, and see whether the host tests notice: hours for
|                     all of it. The last line is "N caught, N missed, N timed out, N unviable"
|   MUTANTS='GLOB…'   only these files, such as 'rust_perf/pmc/assign*'
|   SHARD=k/n         only each n-th change, from the k-th on (0 is the first)
| make shell          an interactive guest with the module loaded
| make guest CMD=…    run one command in a fresh guest. make exits with 2 if the command
|                     fails; tools/bootstrap guest --cmd '…' with the command's own status
|   SUITE=name        for shell and guest: a guest like that of the suite, with the program
|                     guest-tests in PATH
|   EXAMPLE=name      for shell and guest: load out/name.ko as well, built from
|                     rust_perf/examples/name.rs
| make bench-ci       what counted costs and counts, beside cachegrind: the table of docs/ci.md
|   ROUNDS=n          count each program n times (default: 10)
| make generations    make generations.md and cpus.md of docs/results from the last
|                     `make test ALL=1`
| make module         build out/rust_perf.ko
|   KDIR=dir          for that kernel build tree
|   CLIPPY=1          with clippy
|   EXAMPLE=name      build out/name.ko from rust_perf/examples/name.rs instead
| make rust-headers   make a stock Debian kernel's build tree fit for Rust modules, and
|                     print where it is and how to use it
| make install        build the module for the running kernel, if its headers have Rust metadata, and
|                     install it in /lib/modules; make uninstall removes it
|   KDIR=dir          for the kernel of that build tree
|   DESTDIR=dir       below that directory (INSTALL_MOD_PATH= is the same)
| make deb            build Debian packages in out/deb: the module by DKMS, the Rust metadata of the
|                     kernel's headers, the tests, and QEMU with a PMU. They are installed and purged
|                     in a throw-away root
| make tarball        make a tarball of counted in out, with QEMU and a kernel, for other distributions,
|                     and try it on another release of Debian
| make install-test   install these packages on a fresh Debian 13 with the older supported kernel, boot
|                     it, upgrade to the newer kernel, boot it, also with Secure Boot, and purge them
| make kselftest-install
|                     install the guest tests as a kselftest collection, to be run on any
|                     machine with the module: run_kselftest.sh, or rust_perf/rust-perf-tests
|   INSTALL_PATH=dir  in that directory (default: out/kselftest)
| make event-lists    unpack Intel's event lists from the kernel's source, and print where they
|                     are; `make test` does so as well
| make bench          measure what events cost with both drivers, on each generation, in
|                     out/bench (docs/results/performance.md), and what the emulated PMU costs
|   GENERATIONS='v4 amd-core'  on these only
|   BEFORE=file       compare with the bench.json of another driver
|   FROM=file         make the page and the plots of a bench.json, measure nothing
|   FUNCTIONS='read a group of 4'  instead, print which functions run in that operation
|   ROUNDS=n          guests for each figure of the emulated PMU (default: 5); 0: leave that out
| make update         look for a newer kernel in the package index
| make clean          remove what this checkout has built, and its logs
| make clean-cache    remove the cache: build root, kernel, QEMU
|
| For demo, shell and guest:
|   PRIMARY=1         boot without the kernel's own driver, and load the module in its place:
|                     docs/in-place.md
| For demo, shell, guest and test:
|   SHARE=dir         a host directory for /mnt/share in the guest (default: out/share)
|   SMP=n             the number of virtual CPUs (default: 2, or the suite's)
|   CPU=…             QEMU's -cpu
|   PMU=off           a CPU without a PMU; PMU=on: with one
|   QEMU=debian       QEMU as Debian ships it, without a PMU; QEMU=patched: this project's
|   APPEND=…          more arguments for the kernel's command line
|   QEMU_ARGS=…       more arguments for QEMU
|   TIMEOUT=s         seconds until the guest is stopped (default: 600); for a guest of
|                     `make test`, seconds without a result
| For all: KERNEL=release, a Debian kernel such as 7.3.4+deb13-amd64. For guest, shell, test and
|                     module also a kernel that checks itself and is built from Debian's source:
|                     KERNEL=debug (KASAN, lockdep, kmemleak, UBSAN), debug-kcsan, or plain (no checks)
endef

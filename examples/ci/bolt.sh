#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Has BOLT optimise a program by a profile with branch records. The program must be linked with --emit-relocs.
#
#   bolt.sh PROGRAM OPTIMISED ARGUMENTS...
set -eu

program=$1
optimised=$2
shift 2
directory=$(mktemp -d)
trap 'rm -r "$directory"' EXIT

counted --cpu skylake --rw "$directory" -- \
	perf record -q -e cycles:u -j any,u -o "$directory/perf.data" -- "$program" "$@" </dev/null
perf2bolt-19 -p "$directory/perf.data" -o "$directory/profile" "$program"
llvm-bolt-19 "$program" -o "$optimised" -data="$directory/profile" \
	-reorder-blocks=ext-tsp -reorder-functions=hfsort -split-functions

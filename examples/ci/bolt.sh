#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Has BOLT optimise a program by a profile with branch records. The program must be linked with --emit-relocs,
# and gcc needs -fno-reorder-blocks-and-partition.
#
#   bolt.sh PROGRAM OPTIMISED ARGUMENTS...
set -eu

# perf2bolt does not work by the name that it has in /usr/bin, perf2bolt-19.
PATH=/usr/lib/llvm-19/bin:$PATH

program=$1
optimised=$2
shift 2
directory=$(mktemp -d)
trap 'rm -r "$directory"' EXIT

counted --rw "$directory" -- \
	perf record -q -e cycles:u -j any,u -o "$directory/perf.data" -- "$program" "$@" </dev/null
perf2bolt -p "$directory/perf.data" -o "$directory/profile" "$program"
llvm-bolt "$program" -o "$optimised" -data="$directory/profile" \
	-reorder-blocks=ext-tsp -reorder-functions=cdsort -split-functions

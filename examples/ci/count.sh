#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Counts the instructions that a command executes in user mode, and fails if there are over 0.5 % more than
# a file says. With --new it writes the file, which belongs into the repository.
#
#   count.sh [--new] FILE COMMAND...
set -eu

new=
if [ "$1" = --new ]; then
	new=1
	shift
fi
file=$1
shift
directory=$(mktemp -d)
trap 'rm -r "$directory"' EXIT

counted --exact --rw "$directory" -- \
	perf stat -x, -o "$directory/counts" -e instructions:u -- "$@" </dev/null
now=$(sed -n 's/^\([0-9]*\),.*instructions:u.*/\1/p' "$directory/counts")
if [ -z "$now" ]; then
	cat "$directory/counts" >&2
	exit 1
fi
if [ -n "$new" ]; then
	echo "$now" >"$file"
	echo "$now instructions"
	exit
fi
if [ ! -e "$file" ]; then
	echo "there is no $file: make it with --new, and commit it" >&2
	exit 1
fi
before=$(cat "$file")
echo "$now instructions, $before before"
if [ $((now * 1000)) -gt $((before * 1005)) ]; then
	echo "over 0.5 % more" >&2
	exit 1
fi

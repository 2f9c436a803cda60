#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Records a command with rr, and replays it. The record stays in a directory, where rr, or gdb by rr, can replay
# it again: counted --rw DIRECTORY -- rr replay DIRECTORY/trace
#
#   rr.sh DIRECTORY COMMAND...
set -eu

directory=$1
shift
mkdir -p "$directory"
counted --rw "$directory" -- rr record -o "$directory/trace" "$@" </dev/null
counted --rw "$directory" -- rr replay -a "$directory/trace" </dev/null

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Prints the raw records of rust_trace in a perf.data file.

    perf record -R -c 1 -e rust_trace/sched_switch/ -a sleep 1
    trace-decode.py [perf.data]

Each line has the time, the CPU, the task that was running, the trace point and its
arguments. docs/rust-trace.md describes the record.
"""

import os
import struct
import sys

# Bits of sample_type, in the order of the fields before PERF_SAMPLE_RAW.
IP, TID, TIME, ADDR, READ, CALLCHAIN, ID, CPU, PERIOD, STREAM_ID, RAW = (
    1 << bit for bit in range(11)
)
IDENTIFIER = 1 << 16
RECORD_SAMPLE = 9
# Names that are no trace points, but have a number like those.
OTHERS = ["page-faults", "cpu-migrations"]


def number(name):
    """The 32-bit FNV-1a hash of a name."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def known_names():
    """The names of the numbers, as far as this kernel tells."""
    found = set(OTHERS)
    events = "/sys/kernel/tracing/available_events"
    if os.access(events, os.R_OK):
        with open(events) as lines:
            found.update(line.strip().rpartition(":")[2] for line in lines)
    prefix = "__tracepoint_"
    with open("/proc/kallsyms") as symbols:
        words = (line.split()[2] for line in symbols)
        found.update(word[len(prefix) :] for word in words if word.startswith(prefix))
    probes = {1: "kprobe", 2: "uprobe", 5: "kretprobe", 6: "uretprobe"}
    return {number(name): name for name in found} | probes


class Reader:
    """Takes words from the front of a sample."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, form):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values

    def skip(self, size):
        self.at += size


class Attribute:
    """What the samples of an event consist of."""

    def __init__(self, data):
        self.type, _, self.config, _, self.sample_type, self.read_format = struct.unpack_from(
            "<IIQQQQ", data
        )

    def skip_read(self, reader):
        """Skips the counts (PERF_SAMPLE_READ)."""
        each = 1 + bool(self.read_format & 4) + bool(self.read_format & 16)
        times = bool(self.read_format & 1) + bool(self.read_format & 2)
        if self.read_format & 8:
            (members,) = reader.take("Q")
            reader.skip(8 * (times + members * each))
        else:
            reader.skip(8 * (times + each))

    def sample(self, data):
        """The fields of a sample that are printed."""
        has, reader, fields = self.sample_type, Reader(data), {}
        if has & IDENTIFIER:
            reader.skip(8)
        if has & IP:
            reader.skip(8)
        if has & TID:
            fields["pid"], fields["tid"] = reader.take("II")
        if has & TIME:
            (fields["time"],) = reader.take("Q")
        reader.skip(8 * sum(bool(has & bit) for bit in (ADDR, ID, STREAM_ID)))
        if has & CPU:
            fields["cpu"], _ = reader.take("II")
        if has & PERIOD:
            reader.skip(8)
        if has & READ:
            self.skip_read(reader)
        if has & CALLCHAIN:
            (length,) = reader.take("Q")
            reader.skip(8 * length)
        if has & RAW:
            (size,) = reader.take("I")
            fields["raw"] = data[reader.at : reader.at + size]
        return fields

    def id_offset(self):
        """Where the id of a sample's event is, `None` if it has none."""
        if self.sample_type & IDENTIFIER:
            return 0
        if not self.sample_type & ID:
            return None
        return 8 * sum(bool(self.sample_type & bit) for bit in (IP, TID, TIME, ADDR))


def samples(data):
    """The attribute and the contents of each sample in a perf.data file."""
    magic, _, attr_size, attrs, attrs_size, start, size = struct.unpack_from("<8sQQQQQQ", data)
    if magic != b"PERFILE2":
        sys.exit("not a perf.data file")
    by_id, first = {}, None
    for at in range(attrs, attrs + attrs_size, attr_size):
        attribute = Attribute(data[at : at + attr_size])
        first = first or attribute
        ids, ids_size = struct.unpack_from("<QQ", data, at + attr_size - 16)
        for (key,) in struct.iter_unpack("<Q", data[ids : ids + ids_size]):
            by_id[key] = attribute
    at = start
    while at < start + size:
        kind, _, length = struct.unpack_from("<IHH", data, at)
        if kind == RECORD_SAMPLE:
            body = data[at + 8 : at + length]
            offset = first.id_offset()
            attribute = first
            if offset is not None:
                attribute = by_id.get(struct.unpack_from("<Q", body, offset)[0], first)
            yield attribute, body
        at += max(length, 8)


def decode(raw):
    """The pid, the number and the arguments of a record, `None` if it is none."""
    if len(raw) < 20 or raw[:2] != b"\0\0":
        return None
    pid, point, length = struct.unpack_from("<iII", raw, 4)
    if len(raw) != 20 + 8 * length:
        return None
    return pid, point, struct.unpack_from(f"<{length}Q", raw, 16)


def main(path):
    names = known_names()
    with open(path, "rb") as file:
        data = file.read()
    for attribute, body in samples(data):
        fields = attribute.sample(body)
        record = decode(fields.get("raw", b""))
        if record is None:
            continue
        pid, point, arguments = record
        time = fields.get("time", 0)
        name = names.get(point, f"{point:#010x}")
        words = " ".join(f"{argument:#x}" for argument in arguments)
        print(
            f"{time // 10**9}.{time % 10**9 // 1000:06} [{fields.get('cpu', 0):03}] "
            f"{pid:7} {name}: {words}"
        )


if __name__ == "__main__":
    if len(sys.argv) > 2 or sys.argv[1:2] in (["-h"], ["--help"]):
        sys.exit(__doc__.strip())
    try:
        main(sys.argv[1] if len(sys.argv) == 2 else "perf.data")
    except BrokenPipeError:
        sys.stderr.close()

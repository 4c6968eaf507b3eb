#!/usr/bin/env bash
# jobs.sh: how many test processes this machine can run: one a processor, and one for each 1.5 GiB of memory that is free,
# at most 8. A container's own limits (cgroup v2 and v1) count where they are lower. ROOT in the environment stands for /.
set -euo pipefail
root=${ROOT:-}
each=$((1536 * 1024 * 1024))

number() { # the first whole number in the file $1, or nothing
  [ -r "$1" ] && grep -oE -m 1 '^[0-9]+' "$1" | head -n 1 || true
}

jobs=${PROCESSORS:-$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)}
((jobs <= 8)) || jobs=8

free=
if [ -r "$root/proc/meminfo" ]; then
  kib=$(awk '$1 == "MemAvailable:" { print $2 }' "$root/proc/meminfo")
  [ -z "$kib" ] || free=$((kib * 1024))
elif bytes=$(sysctl -n hw.memsize 2>/dev/null); then
  free=$((bytes / 2)) # macOS says what there is; half of it may be in use
fi
for pair in memory.max:memory.current memory/memory.limit_in_bytes:memory/memory.usage_in_bytes; do
  limit=$(number "$root/sys/fs/cgroup/${pair%%:*}")
  used=$(number "$root/sys/fs/cgroup/${pair##*:}")
  # version 1 writes "no limit" as a number of 19 digits
  if [ -n "$limit" ] && ((${#limit} < 18)); then
    left=$((limit - ${used:-0}))
    if [ -z "$free" ] || ((left < free)); then free=$left; fi
  fi
done

if [ -n "$free" ] && ((free / each < jobs)); then jobs=$((free / each)); fi
((jobs >= 1)) || jobs=1
echo "$jobs"

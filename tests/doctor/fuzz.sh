#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# fuzz.sh READER [SECONDS]: throws what tests/corpus holds for a reader at it,
# then what libFuzzer makes of that, for some seconds. An input that it fails
# on is kept in build/ and named.
. "$(dirname "$0")/../tap.sh"

reader=$1
seconds=${2:-12}
target=$BUILD/tests/fuzz_$reader
corpus=$SOURCE/tests/corpus/$reader
work=$(mktemp -d -p "$scratch")

[[ $(find "$corpus" -type f | wc -l) -ge 10 ]]
ok $? "there is a corpus for $reader"
"$target" -runs=0 -timeout=5 -rss_limit_mb=1024 "$corpus" >"$work/log" 2>&1
is $? 0 "$reader survives its corpus"
"$target" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=1024 \
	-max_len=65536 -artifact_prefix="$BUILD/fuzz-$reader-" \
	"$work" "$corpus" >"$work/log" 2>&1
code=$?
is $code 0 "$reader survives $seconds seconds of fuzzing"
if ((code)); then
	tail -n 20 "$work/log" | sed 's/^/# /'
fi
done_testing

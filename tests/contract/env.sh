#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `onehop env` knows every variable that the sources read, marks what is
# malformed, and keeps the id to itself.
. "$(dirname "$0")/../tap.sh"

onehop=$BUILD/onehop

shown=$("$onehop" env)
is $? 0 "onehop env ends with 0"
for name in $(grep -rhoE --include='*.[ch]' --include='*.def' \
	'"ONEHOP_[A-Z_]+"' "$SOURCE/src" "$SOURCE/tools" |
	tr -d '"' | grep -v '^ONEHOP_TEST_' | sort -u); do
	has "$shown" "$name" "onehop env shows $name"
done

# no setting takes that, the id neither
while read -r name; do
	env "$name=?" "$onehop" env >"$scratch/out" 2>&1
	is $? 2 "$name=?: exit code 2"
done < <(grep -oE '^ONEHOP_\w+' <<<"$shown")

while read -r name value; do
	output=$(env "$name=$value" "$onehop" env 2>&1)
	is $? 2 "$name=$value: exit code 2"
	is "$(grep -A 1 "^$name " <<<"$output" | grep -c MALFORMED)" 1 \
		"$name=$value is marked as malformed"
done <<'END'
ONEHOP_RANK 16
ONEHOP_RANK -1
ONEHOP_RANKS 0
ONEHOP_RANKS 2x
ONEHOP_RENDEZVOUS_TIMEOUT_MS 0
ONEHOP_CALL_TIMEOUT_MS 1e3
ONEHOP_CALL_TIMEOUT_MS 86400001
ONEHOP_SLOT_BYTES 4095
ONEHOP_SLOT_BYTES 2G
ONEHOP_SLOT_BYTES 4MB
ONEHOP_HEAP_BYTES 99999999999999999999
ONEHOP_DEVICE_BYTES 1K
ONEHOP_DEVICE_SHARE cuda
ONEHOP_FORBID_PEER 0
ONEHOP_FORBID_PEER 0-16
ONEHOP_FORBID_PEER 1-1
ONEHOP_FORBID_PEER 0-1,
ONEHOP_DEVICE_TABLE 8K
ONEHOP_DEVICE_TABLE 8K:one-shot:16x64
ONEHOP_DEVICE_TABLE 8K:ring:16x64:0
ONEHOP_DEVICE_TABLE 8K:one-shot:16x48:0
ONEHOP_DEVICE_TABLE 8K:one-shot:16x0:0
ONEHOP_DEVICE_TABLE 8K:one-shot:16x544:0
ONEHOP_DEVICE_TABLE 8K:one-shot:1025x64:0
ONEHOP_DEVICE_TABLE 8K:chunks:16x96:0
ONEHOP_DEVICE_TABLE 8K:one-shot:16x64:0,
ONEHOP_DEVICE_TABLE 8K:one-shot:16x64:0,8K:one-shot:16x64:0
ONEHOP_DEVICE_TABLE 100:one-shot:16x64:0
ONEHOP_DEVICE_TABLE 0:one-shot:16x64:0
ONEHOP_DEVICE_TABLE 2G:one-shot:16x64:0
ONEHOP_ALGORITHM ring
ONEHOP_STORES Cached
ONEHOP_TUNE yes
ONEHOP_ISA sse
ONEHOP_SPIN forever
ONEHOP_LOG 3
ONEHOP_FIRST_CALL 0x10
END

while read -r name value; do
	output=$(env "$name=$value" "$onehop" env 2>&1)
	is $? 0 "$name=$value: exit code 0"
	has "$(grep "^$name " <<<"$output")" " $value " "$name=$value is shown"
done <<'END'
ONEHOP_SLOT_BYTES 4096
ONEHOP_SLOT_BYTES 1G
ONEHOP_SLOT_BYTES 64k
ONEHOP_HEAP_BYTES 1024G
ONEHOP_FORBID_PEER all
ONEHOP_FORBID_PEER 0-1,15-2
ONEHOP_DEVICE_TABLE 512:flags:1x32:200,8K:one-shot:16x96:0,8M:chunks:0x512:1000000
ONEHOP_ALGORITHM two-shot
ONEHOP_FIRST_CALL 4294967290
END

# well-formed, and yet the library takes none of them here
isa=neon
[[ $(uname -m) != aarch64 ]] || isa=avx2
while read -r settings; do
	read -ra settings <<<"$settings"
	output=$(env "${settings[@]}" "$onehop" env 2>&1)
	is $? 2 "${settings[*]}: exit code 2"
	is "$(grep -A 1 "^${settings[0]%=*} " <<<"$output" | grep -c REFUSED)" 1 \
		"${settings[0]} is marked as refused"
	is "$(grep -cE 'REFUSED|MALFORMED' <<<"$output")" 1 "and nothing else"
done <<END
ONEHOP_ISA=$isa
ONEHOP_RANK=3 ONEHOP_RANKS=2
ONEHOP_RANK=2 ONEHOP_RANKS=2
END
ONEHOP_ISA=plain ONEHOP_RANK=1 ONEHOP_RANKS=2 "$onehop" env >/dev/null
is $? 0 "what the library takes is fine"
ONEHOP_RANK=3 "$onehop" env >/dev/null
is $? 0 "a rank without a number of ranks too"
has "$("$onehop" env | grep '^ONEHOP_DEVICE_BYTES')" \
	"1M to 1G, digits with an optional K, M or G (binary)" "sizes are told as they are set"

# every pair of 16 ranks: 120 words
pairs=$(for ((i = 0; i < 16; i++)); do
	for ((j = i + 1; j < 16; j++)); do echo "$i-$j"; done
done | paste -sd,)
has "$(ONEHOP_FORBID_PEER=$pairs "$onehop" env)" " $pairs " "a long value is shown whole"
has "$(ONEHOP_FORBID_PEER=$pairs "$onehop" env --json)" "\"$pairs\"" "in JSON, too"

output=$(ONEHOP_SLOT_BYTES='' "$onehop" env)
is $? 0 "an empty value counts as unset"

secret=$(printf '5ec2e7%.0s' {1..43} | cut -c 1-256)
for id in "$secret" "${secret}0" "${secret%?}" "${secret%?}g"; do
	output=$(ONEHOP_ID=$id "$onehop" env 2>&1; ONEHOP_ID=$id "$onehop" env --json 2>&1)
	[[ $output != *5ec2e7* ]]
	ok $? "the value of an id of ${#id} digits is not shown"
done
output=$(ONEHOP_ID=$secret "$onehop" env)
is $? 0 "an id of 256 digits is well-formed"
is "$(grep '^ONEHOP_ID ' <<<"$output" | awk '{ print $2 }')" set "it is shown as set"
ONEHOP_ID=${secret}0 "$onehop" env >/dev/null
is $? 2 "an id of 257 digits is malformed"

output=$(ONEHOP_LOG=$'\e[31mred' "$onehop" env)
[[ $output != *$'\e'* ]]
ok $? "control characters are not passed to the terminal"
output=$(ONEHOP_SLOTBYTES=4 "$onehop" env 2>&1 >/dev/null)
is $? 0 "a variable that is no setting is no error"
has "$output" "ONEHOP_SLOTBYTES is not a setting" "it is named on stderr"
is "$(ONEHOP_TEST_SEED=1 "$onehop" env 2>&1 >/dev/null)" "" \
	"the tests' own variables are not"

if command -v jq >/dev/null; then
	output=$(ONEHOP_SLOT_BYTES=1 ONEHOP_X=$'a\nb' ONEHOP_LOG=$'\xff' "$onehop" env --json 2>/dev/null)
	is "$(jq -r .schema_version <<<"$output")" 1 "--json has a schema_version"
	is "$(jq -r '.settings[] | select(.name == "ONEHOP_SLOT_BYTES") | .state' <<<"$output")" \
		malformed "--json marks what is malformed"
	is "$(jq -r '.settings[] | select(.name == "ONEHOP_TUNE") | .value' <<<"$output")" \
		on "--json shows a default"
	is "$(ONEHOP_ISA=$isa "$onehop" env --json | jq -c '.settings[] | select(.reason) | [.name, .state]')" \
		'["ONEHOP_ISA","refused"]' "--json says what is refused"
	is "$(jq -r '.unknown[]' <<<"$output")" ONEHOP_X "--json lists what is no setting"
else
	skip "--json" "jq is not installed"
fi
done_testing

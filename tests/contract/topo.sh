#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `onehop topo`: what it shows of a pasted report, in its three forms, and what
# it says of texts that it cannot read.
. "$(dirname "$0")/../tap.sh"

onehop=$BUILD/onehop
cd "$scratch" || exit 1
# short names, so that the width of a line is the text's own
cp "$SOURCE/tests/cases/glm5-eight-rtx-pro-6000/report.txt" glm5.txt
cp "$SOURCE/tests/cases/eight-behind-four-virtual-switches/report.txt" switch.txt
cp "$SOURCE/tests/cases/four-node-iommu-translated/report.txt" four.txt
cp "$SOURCE/tests/reports/two-5090-phb-p2p-gns/input.txt" pair.txt
cp "$SOURCE/tests/reports/nv18-glued-nic-columns/input.txt" glued.txt
cp "$SOURCE/tests/reports/rocm-smi-showtopo-refuse/input.txt" rocm.txt
cp "$SOURCE/tests/reports/ten-2080ti-bridges-across-switches/input.txt" bridged.txt
cp "$SOURCE/tests/reports/dgx2-sixteen-nv6-truncated/input.txt" cut.txt

# refuses CODE PART ARGUMENT...: onehop topo must end with CODE, nothing on
# stdout and PART in one line on stderr
refuses()
{
	local code=$1 part=$2

	shift 2
	"$onehop" topo "$@" >stdout 2>stderr </dev/null
	is $? "$code" "topo $*: exit code $code"
	is "$(cat stdout)" "" "topo $*: nothing on stdout"
	has "$(cat stderr)" "$part" "topo $*: says '$part'"
	is "$(wc -l <stderr)" 1 "topo $*: in one line"
}

# text
shown=$("$onehop" topo glm5.txt 2>stderr)
is $? 0 "eight GPUs: exit code 0"
is "$(cat stderr)" "" "nothing on stderr"
has "$shown" "GPU3    NODE  NODE  NODE     X   SYS   SYS   SYS   SYS" "the matrix"
has "$shown" "glm5.txt:14" "and where it is from"
has "$shown" "read        OK for every pair" "peer access"
has "$shown" "islands         0 1 2 3 | 4 5 6 7" "the islands"
has "$shown" "NUMA node 1
  island 1
    GPU4   NVIDIA RTX PRO 6000 Blackwell Workstation Edition" "the tree"
has "$shown" "driver      590.48.01 (glm5.txt:10)" "the driver and its origin"
[[ $shown != *"switch groups"* ]]
ok $? "no switch groups where there are none"
[[ $shown != *$'\e'* ]]
ok $? "no colour where there is no terminal"

shown=$("$onehop" topo switch.txt)
has "$shown" "NUMA node 0
  island 0
    switch group 0
      GPU0   " "the tree has switch groups"
has "$shown" "switch groups   0 1 | 2 3 | 4 5 | 6 7" "and they are listed"
has "$shown" "nvidia-smi topo -p2p r" "what is not known can be learnt"
has "$("$onehop" topo four.txt)" "IOMMU       translated (four.txt:9)" "the IOMMU"
has "$("$onehop" topo four.txt)" "ACS         1 bridge redirects" "ACS"
has "$("$onehop" topo pair.txt)" "read        GNS for every pair" "a refusal"
has "$("$onehop" topo glued.txt)" "NIC8NIC9" "a remark"

# a switch group whose GPUs are of several islands is no branch of any
shown=$("$onehop" topo bridged.txt)
has "$shown" "NUMA node 0
  island 0
    GPU0   NVIDIA GeForce RTX 2080 Ti
  island 1" "a tree without switch groups that it cannot show"
has "$shown" "switch groups   0 1 2 3 4 | 5 6 7 8" "which are listed"
printf '\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X \n' >bare.txt
[[ $("$onehop" topo bare.txt) != *Host* ]]
ok $? "no section of a host that nothing is known of"
printf '%s\n' 'index, pci.bus_id, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, pcie.link.width.max' \
	'0, 00000000:17:00.0, 1, 4, 8, 16' '1, 00000000:65:00.0, 4, 4, 16, 16' >lanes.txt
shown=$("$onehop" topo lanes.txt)
has "$shown" "GPU0   0000:17:00.0, PCIe gen 1 x8 of at most gen 4 x16" \
	"PCIe now and at most, of a GPU without a name"
has "$shown" "GPU1   0000:65:00.0, PCIe gen 4 x16" "and of one that has all"

printf 'topo -p2p r\nGPU0 GPU1\nGPU0 X OK\nGPU1 NS X\n' >mixed.txt
has "$("$onehop" topo mixed.txt)" "GPU1      NS     X" \
	"statuses that differ are a matrix"
has "$("$onehop" topo mixed.txt)" "nvidia-smi topo -m" \
	"links that are not known"

wide=$(for file in "$SOURCE"/tests/cases/*/report.txt "$SOURCE"/tests/reports/*/input.txt; do
	cp "$file" file.txt
	"$onehop" topo file.txt 2>/dev/null
done | awk 'length > 80')
is "$wide" "" "eight GPUs fit 80 columns"
for count in 9 16 32; do
	awk -v n=$count 'BEGIN {
		for (i = 0; i < n; i++) printf "\tGPU%d", i
		for (i = 0; i < n; i++) {
			printf "\nGPU%d", i
			for (j = 0; j < n; j++) printf "\t%s", i == j ? "X" : "NV18"
		}
		print ""
	}' >many.txt
	shown=$("$onehop" topo many.txt)
	is $? 0 "$count GPUs are shown"
	is "$(grep -c '^GPU[0-9]* .*NV18' <<<"$shown")" $count "in $count rows"
	is "$(awk 'length > 170' <<<"$shown")" "" "of 170 columns at most"
done

# several files, and standard input
is "$("$onehop" topo - <glm5.txt | sed 's/standard input:/glm5.txt:/')" \
	"$("$onehop" topo glm5.txt)" "- is standard input"
sed -n '/^nvidia-smi/,$p' pair.txt >peers.txt
sed '/^nvidia-smi/,$d; /^\$ nvidia-smi topo -p2p/,$d' pair.txt >links.txt
sed -n '/topo -p2p/,$p' pair.txt >peers.txt
shown=$("$onehop" topo links.txt peers.txt)
is $? 0 "two files"
has "$shown" "from links.txt:5" "the links of one"
has "$shown" "write       GNS for every pair" "the peer access of the other"
refuses 2 "glm5.txt:14 says 8, four.txt:13 says 4" glm5.txt four.txt

# JSON
if command -v jq >/dev/null; then
	json=$("$onehop" topo --json switch.txt)
	is $? 0 "--json: exit code 0"
	query()
	{
		jq -c "$1" <<<"$json"
	}
	is "$(query .schema_version)" 1 "--json: schema_version"
	is "$(query .machine.links[2])" \
		'["NODE","NODE","X","PIX","SYS","SYS","SYS","SYS"]' "--json: links"
	is "$(query .machine.islands)" '[[0,1,2,3],[4,5,6,7]]' "--json: islands"
	is "$(query .machine.switch_groups)" '[[0,1],[2,3],[4,5],[6,7]]' \
		"--json: switch groups"
	is "$(query .machine.driver_says_peer)" '"unknown"' "--json: peer access"
	is "$(query .machine.peer)" \
		'{"read":null,"write":null,"nvlink":null,"atomics":null}' \
		"--json: what was not asked is null"
	is "$(query '.machine.gpus[5] | [.index, .numa_node, .mig, .pcie.width]')" \
		'[5,1,null,null]' "--json: GPUs"
	is "$(query '.machine.host | [.driver, .iommu, .acs_redirect]')" \
		'["595.58.03","off",null]' "--json: the host"
	is "$(query '.machine.origins | [."host.driver", .links, ."gpus[7].name"]')" \
		'["switch.txt:10","switch.txt:15","switch.txt:9"]' "--json: origins"
	json=$("$onehop" topo --json pair.txt)
	is "$(query '.machine | has("switch_groups")')" false \
		"--json: no switch groups"
	is "$(query .machine.peer.write)" '[["X","GNS"],["GNS","X"]]' \
		"--json: statuses"
	is "$(query .machine.driver_says_peer)" '"none"' "--json: no peer access"
	json=$("$onehop" topo --json mixed.txt)
	is "$(query '.machine | [.links, .islands, .driver_says_peer]')" \
		'[null,[],"some"]' "--json: links that are not known"
	cp pair.txt $'\xff.txt'
	json=$("$onehop" topo --json $'\xff.txt')
	unknown=$'\xef\xbf\xbd' # U+FFFD
	is "$(query '.machine.origins.links')" "\"$unknown.txt:5\"" \
		"--json: a file's name that is no UTF-8"
else
	skip "--json" "jq is not installed"
fi

# Graphviz
dot=$("$onehop" topo --dot switch.txt)
is $? 0 "--dot: exit code 0"
has "$dot" 'gpu0 -- gpu1 [label="PIX"' "--dot: a link"
[[ $dot != *SYS* ]]
ok $? "--dot: SYS is not drawn"
is "$(grep -c 'subgraph cluster' <<<"$dot")" 2 "--dot: a cluster for each island"
is "$(tr -cd '{' <<<"$dot" | wc -c)" "$(tr -cd '}' <<<"$dot" | wc -c)" \
	"--dot: braces match"
if command -v dot >/dev/null; then
	passes "--dot: Graphviz reads it" dot -Tplain -o /dev/null <<<"$dot"
else
	skip "--dot: Graphviz reads it" "Graphviz is not installed"
fi

# what is refused
refuses 2 "rocm.txt:1: output of rocm-smi" rocm.txt
refuses 2 "cut.txt:1: the matrix is cut" cut.txt
refuses 2 "GPU5 to GPU15" cut.txt
refuses 2 "missing.txt" missing.txt
refuses 2 "cannot be read" .
: >empty.txt
refuses 2 "empty.txt: nothing of a machine" empty.txt
echo "GPU0 and GPU1 hang" >prose.txt
refuses 2 "prose.txt: nothing of a machine" prose.txt
refuses 2 "nothing of a machine" glm5.txt prose.txt
echo "Nvidia driver version: 550.1.1" >driver.txt
refuses 2 "no GPU is named" driver.txt
refuses 2 "'--nothing' is not known" --nothing glm5.txt
refuses 2 "--json: not together with --dot" --json --dot glm5.txt
refuses 2 "--json: not together with --dot" --dot --json glm5.txt
head -c 100000 /dev/urandom >noise.txt
"$onehop" topo noise.txt >/dev/null 2>&1
is $? 2 "noise is no machine"
"$onehop" topo glm5.txt >/dev/full 2>stderr
is $? 3 "a full device: exit code 3"
has "$(cat stderr)" "writing to stdout failed" "and it is said"
"$onehop" topo --json glm5.txt >/dev/full 2>stderr
is $? 3 "a full device, JSON: exit code 3"

# this machine
if "$onehop" topo >stdout 2>stderr; then
	has "$(cat stdout)" "Links" "this machine is shown"
else
	is $? 77 "no GPU here: exit code 77"
	is "$(cat stdout)" "" "nothing on stdout"
	has "$(cat stderr)" "give a file" "and what to do instead"
fi

# a long text in little memory
{
	yes 'INFO 08-06 02:11:09 [worker.py:1] loading the weights of layer 12 of GPU0' |
		head -n 300000
	cat glm5.txt
} >long.txt
(
	# a sanitizer's shadow needs more
	grep -qE '__(a|m|t)san_init' "$onehop" || ulimit -v 200000
	"$onehop" topo long.txt >stdout 2>stderr
)
is $? 0 "a report behind 300,000 lines of a log"
has "$(cat stdout)" "long.txt:300014" "its lines are counted"
done_testing

#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `onehop bench`: small rows run, the table's last line agrees with the exit
# code, and flags are taken as getopt and nccl-tests' users write them.
. "$(dirname "$0")/../tap.sh"

bench=("$BUILD/onehop" bench --no-pin)

# measures ARGUMENT...: must end with 0, and say so
measures()
{
	timeout 60 "${bench[@]}" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
	is $? 0 "bench $*: exit code 0"
	is "$(tail -n 1 "$scratch/out")" "# wrong elements: 0 OK" \
		"bench $*: the last line says so"
	[[ ! -s $scratch/err ]] || note "$(cat "$scratch/err")"
}

# 4 bytes are less than what the exchange of flags is said to move, and so
# are the 60 that 3 ranks make of 64
measures --ranks 2 --sizes 4 -n 5
has "$(cat "$scratch/out")" "# floors:   bytes flags us memcpy us" "floors are called what they are"
measures --ranks 3 --sizes 64 -n 5 --collective all_gather
measures --ranks 2 --sizes 1 -d u8 -n 1 --alloc comm --out-of-place
measures --ranks 1 --sizes 8 -n 5

# Values attached, as `onehop run -n4` takes them
measures --ranks=2 -b4K -e4K -n10 -w0 -c1 -dbf16 -omax "-J$scratch/json"
is "$(tail -n +2 "$scratch/out" | awk '$1 == 4096 { print $3, $4; exit }')" \
	"bf16 max" "attached values are taken"
[[ -s $scratch/json ]]
ok $? "-JFILE is written"
has "$(cat "$scratch/json")" '"stores": "' "JSON says which stores a row has"
ONEHOP_STORES=vector measures --ranks 2 --sizes 64 -n 5 --json "$scratch/json"
has "$(cat "$scratch/json")" '"stores": "vector"' "those that are set"
measures --ranks 2 --sizes 64K -n 5 --alloc comm --json "$scratch/json"
has "$(cat "$scratch/json")" '"stores": null' "direct calls write no mailbox"
while read -r argument message; do
	timeout 60 "${bench[@]}" "$argument" >"$scratch/out" 2>"$scratch/err"
	is $? 2 "bench $argument: exit code 2"
	has "$(cat "$scratch/err")" "$message" "bench $argument: $message"
done <<'END'
-nx -n: 'x' is none of what it takes
-n0 -n: '0' is none of what it takes
-n= -n: '' is none of what it takes
-e4X -e: '4X' is none of what it takes
--sizes=5G --sizes: '5G' is none of what it takes: a list of sizes such as 8K,64K, each 1 to 4G
--sizes=0 --sizes: '0' is none of what it takes: a list of sizes such as 8K,64K, each 1 to 4G
-h5 '-h5' is not known
-n -n: a value is missing
-g '-g' is a flag of nccl-tests only: use --ranks N
-g8 '-g8' is a flag of nccl-tests only: use --ranks N
--ngpus=8 '--ngpus=8' is a flag of nccl-tests only: use --ranks N
-t2 use --ranks N, and --threads for threads
--blocking not needed here
--nothing '--nothing' is not known
END

for words in "--in-place --out-of-place" "--out-of-place --in-place" \
	"--in-place --out-of-place --memory device"; do
	read -ra words <<<"$words"
	timeout 60 "${bench[@]}" "${words[@]}" >"$scratch/out" 2>"$scratch/err"
	is "$? $(cat "$scratch/err")" \
		"2 onehop bench: --in-place: not together with --out-of-place" \
		"bench ${words[*]}: exit code 2, and why"
done

# Settings that change a call are told
ONEHOP_ALGORITHM=two-shot ONEHOP_TUNE=on ONEHOP_DEVICE_SHARE=none \
	measures --ranks 2 --sizes 64 -n 5
is "$(grep -A 1 '^# settings' "$scratch/out" | head -n 2)" \
	"# settings  ONEHOP_ALGORITHM=two-shot
# check     on: the first and each round's last call whole, others in 4 places" \
	"the heading has the setting that matters"

# It starts ranks of its own, and reads nothing of another launcher (onehop(1))
ONEHOP_RANK=77 ONEHOP_RANKS=x ONEHOP_ID=x measures --ranks 2 --sizes 64 -n 5
ONEHOP_SLOT_BYTES=x timeout 60 "${bench[@]}" --ranks 2 --sizes 64 -n 5 >"$scratch/out" 2>"$scratch/err"
is "$? $(cat "$scratch/err")" \
	"3 onehop bench: ONEHOP_SLOT_BYTES is 'x', it takes 4K to 1G, digits with an optional K, M or G (binary)" \
	"what its ranks read is an error, said once"

# A rank that dies
"${bench[@]}" --ranks 2 --sizes 64,128 -n 1000000 >"$scratch/out" 2>"$scratch/err" &
pid=$!
for ((i = 0; i < 300; i++)); do
	grep -q '^# *bytes' "$scratch/out" && break
	sleep 0.1
done
pgrep -P "$pid" | tail -n 1 | xargs kill -KILL
wait "$pid"
is $? 1 "a rank is killed: exit code 1"
last=$(tail -n 1 "$scratch/out")
[[ $last == "# not complete: onehop rank "* ]]
ok $? "the last line says that and why ($last)"
has "$(cat "$scratch/out")" "after"$'\n'"# not complete" "a line before it"
is "$(grep -c "0.00 us" "$scratch/out")" 0 "nothing that was not measured has a number"
has "$(cat "$scratch/out")" "not measured after" "it is said to be not measured"

# Nobody reads, or nothing can be written
endless=("${bench[@]}" --ranks 2 -b 64 -e 64K -i 64 -n 50000)
MARK=$scratch timeout 60 "${endless[@]}" 2>"$scratch/err" | head -n 3 >"$scratch/out"
is "${PIPESTATUS[0]}" 141 "the reader has gone: 128 + SIGPIPE"
is "$(cat "$scratch/err")" "" "without a word"
for ((i = 0; i < 100; i++)); do
	left=$(grep -lzsxF "MARK=$scratch" /proc/[0-9]*/environ)
	[[ -n $left ]] || break
	sleep 0.1
done
is "$left" "" "and without a rank that is left behind"
(
	trap '' PIPE
	timeout 60 "${endless[@]}" 2>"$scratch/err"
	echo $? >"$scratch/code"
) | head -n 3 >"$scratch/out"
is "$(cat "$scratch/code")" 3 "the same with SIGPIPE ignored: exit code 3, at once"
has "$(cat "$scratch/err")" "writing to stdout failed" "and a word about it"
timeout 60 "${endless[@]}" >/dev/full 2>"$scratch/err"
is $? 3 "stdout is full: exit code 3, at once"
timeout 60 "${endless[@]}" >&- 2>"$scratch/err"
is $? 3 "stdout is closed: exit code 3, at once"
has "$(cat "$scratch/err")" "writing to stdout failed" "and a word about it"
"${bench[@]}" --ranks 2 --sizes 64 -n 5 --csv /dev/full >"$scratch/out" 2>"$scratch/err"
is $? 3 "the file is full: exit code 3"
is "$(tail -n 1 "$scratch/out")" "# complete, but the output cannot be written" \
	"the last line says so"
mkdir "$scratch/files"
ln -s . "$scratch/files/link"
for other in same ./same link/same "$scratch/files/same"; do
	(cd "$scratch/files" && timeout 60 "${bench[@]}" --ranks 2 --sizes 64 -n 5 \
		--json same --csv "$other") >"$scratch/out" 2>"$scratch/err"
	is $? 2 "--json same --csv $other: exit code 2"
	has "$(cat "$scratch/err")" "both would be the same file" "it says why"
	: >"$scratch/files/same"
done
measures --ranks 2 --sizes 64 -n 5 --json "$scratch/files/same" --csv "$scratch/files/other"
measures --ranks 2 --sizes 64 -n 5 --json /dev/null --csv /dev/null

# A folder and a file that may not be written to are refused before
# anything is measured
# refuses_file FILE WHY [COMMAND...]
refuses_file()
{
	local file=$1 why=$2

	shift 2
	timeout 60 "$@" "${bench[@]}" --ranks 2 --sizes 64 -n 5 --json "$file" \
		>"$scratch/out" 2>"$scratch/err"
	is $? 3 "--json $file: exit code 3"
	is "$(cat "$scratch/out" "$scratch/err")" "onehop bench: $file: cannot be written: $why" \
		"why, and nothing else"
}
refuses_file "$scratch/files" "Is a directory"
if ((EUID)); then
	echo mine >"$scratch/files/read-only"
	chmod 444 "$scratch/files/read-only"
	refuses_file "$scratch/files/read-only" "Permission denied"
	skip "owner and group stay" "only root gives files away"
else
	# the folder is theirs, or nothing could be made in it
	mkdir "$scratch/theirs"
	echo theirs >"$scratch/theirs/read-only"
	chmod 755 "$scratch"
	chmod 444 "$scratch/theirs/read-only"
	chown -R 65534:65533 "$scratch/theirs"
	nobody=(setpriv --reuid=65534 --regid=65533 --clear-groups)
	if "${nobody[@]}" "$BUILD/onehop" version >/dev/null 2>&1; then
		refuses_file "$scratch/theirs/read-only" "Permission denied" "${nobody[@]}"
	else
		skip "a file that may not be written to" "nobody cannot run $BUILD/onehop"
	fi
	measures --ranks 2 --sizes 64 -n 5 --json "$scratch/theirs/read-only"
	is "$(stat -c '%u:%g %a' "$scratch/theirs/read-only")" "65534:65533 444" \
		"owner, group and mode stay"
fi
# a link leads to where the file comes to be
ln -s deeper/second "$scratch/files/first"
mkdir "$scratch/files/deeper"
ln -s ../made "$scratch/files/deeper/second"
measures --ranks 2 --sizes 64 -n 5 --json "$scratch/files/first"
is "$(stat -c %F "$scratch"/files/{first,deeper/second,made} | xargs)" \
	"symbolic link symbolic link regular file" "the file that links lead to is made"
rm "$scratch/files/made"
timeout 60 "${bench[@]}" --ranks 2 --sizes 64 -n 5 --json "$scratch/files/first" \
	--csv "$scratch/files/made" >"$scratch/out" 2>"$scratch/err"
is $? 2 "and is the same file under both names"

# a container may be given a single file
touch "$scratch/files/given"
for old in '' "$(seq 9999)"; do
	echo "$old" >"$scratch/files/real"
	if unshare -rm mount --bind "$scratch/files/real" "$scratch/files/given" 2>/dev/null; then
		# shellcheck disable=SC2016
		timeout 60 unshare -rm bash -c '
			mount --bind "$1" "$2" && shift && exec "${@:2}" --json "$1"' - \
			"$scratch/files/real" "$scratch/files/given" \
			"${bench[@]}" --ranks 2 --sizes 64 -n 5 >"$scratch/out" 2>"$scratch/err"
		is "$? $(cat "$scratch/err")" "0 " "a file that is a mount point: exit code 0"
		passes "and it holds JSON" python3 -m json.tool "$scratch/files/real"
	else
		skip "a file that is a mount point" "nothing can be mounted"
	fi
done

# MPI's ranks do not come, and what is no rank of the run comes all the time
mkdir "$scratch/door"
cp "$BUILD/onehop" "$scratch/door"
ln -s /bin/true "$scratch/door/onehop-peer-mpich"
cat >"$scratch/door/mpirun.mpich" <<'END'
#!/usr/bin/env python3
import os, socket, time
end = time.monotonic() + 40
while time.monotonic() < end:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.connect("\0" + os.environ["ONEHOP_BENCH_SOCKET"])
END
chmod +x "$scratch/door/mpirun.mpich"
PATH=$scratch/door:$PATH timeout 30 "$scratch/door/onehop" bench --no-pin --ranks 2 --sizes 64 -n 5 \
	--peer mpich --timeout 3 >"$scratch/out" 2>"$scratch/err"
has "$(cat "$scratch/out" "$scratch/err")" "mpich: ranks 0 1 did not come after 3 s (--timeout)" \
	"strangers at the door do not put the deadline off"

# A signal
plainly=(env "--default-signal=INT,TERM,HUP,QUIT")
ulimit -c 0
# ends CODE SIGNAL ARGUMENT...: stdout is descriptor 7. What 5 calls take is over
# when the signal comes, and waits for a reader.
ends()
{
	local code=$1 signal=$2 pid

	shift 2
	"${plainly[@]}" "${bench[@]}" --ranks 2 "$@" >&7 2>"$scratch/err" &
	pid=$!
	sleep 2
	kill "-$signal" "$pid"
	for ((i = 0; i < 100; i++)); do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.1
	done
	((i < 100))
	ok $? "bench $*: the first SIG$signal ends it"
	kill -KILL "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
	is $? "$code" "bench $*: exit code $code"
}
mkfifo "$scratch/pipe" "$scratch/full"
echo old >"$scratch/old"
exec 7>"$scratch/out"
for row in HUP:129 INT:130 QUIT:131 TERM:143; do
	ends "${row#*:}" "${row%:*}" -b 64 -e 64K -i 64 -n 50000 --json "$scratch/old"
done
is "$(cat "$scratch/old")" old "and files stay as they were"
ends 143 TERM --sizes 64 -n 5 --json "$scratch/pipe"
exec 7<>"$scratch/full"
dd if=/dev/zero of="$scratch/full" bs=4096 oflag=nonblock 2>/dev/null
ends 130 INT --sizes 64 -n 5
ends 130 INT --sizes 64 -n 5 --json -
exec 7>&-

# What the system refuses is named. 12 are enough for the first rank.
(ulimit -n 12 && exec timeout 60 "${bench[@]}" --ranks 2 --sizes 64 -n 5) >"$scratch/out" 2>"$scratch/err"
is $? 3 "too few open files: exit code 3"
has "$(cat "$scratch/err")" "Too many open files" "and why"
# a stack of 200 TB is more than there are addresses
if (ulimit -s 200000000000) 2>/dev/null; then
	(ulimit -s 200000000000 && exec timeout 60 "${bench[@]}" --threads --ranks 3 --sizes 64 -n 5) \
		>"$scratch/out" 2>"$scratch/err"
	is $? 3 "a thread that does not start: exit code 3"
	has "$(cat "$scratch/err")" "a thread for rank 0: Resource temporarily unavailable" "and why"
else
	skip "a thread that does not start" "the limit of stacks is fixed"
fi
# who takes a locale over may print numbers with a comma
is "$(grep -rlwE 'setlocale|newlocale|uselocale' "$SOURCE"/{src,tools,bench})" "" \
	"no locale is taken over: numbers have points"
done_testing
